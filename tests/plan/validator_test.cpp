// Every rule that a plan can break, told by name.
#include "plan/validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/scenario.h"

namespace teraio::plan {
namespace {

using testing::drop;
using testing::machine;
using testing::offload;
using testing::op;
using testing::prefetch;
using testing::tensor;

class ValidatorTest : public ::testing::Test {
 protected:
  Status check(std::vector<Migration> migrations) const {
    return validate_plan({"test", std::move(migrations)}, trace_, hardware_, limits_);
  }
  void expect_broken(std::string_view rule, std::vector<Migration> migrations) const {
    const Status status = check(std::move(migrations));
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.message(), ::testing::StartsWith(std::string(rule)));
  }

  trace::Trace trace_ = testing::weight_and_activation();
  hardware::Hardware hardware_ = machine(150, 100);
  Limits limits_;
};

TEST_F(ValidatorTest, NothingMovesWhenAllFits) { EXPECT_TRUE(check({}).ok()); }

TEST_F(ValidatorTest, AnOpThatNeedsMoreThanTheBudget) {
  hardware_.device_memory_bytes = 149;  // W, A and B at op 2
  expect_broken("device memory: op 2", {});
  EXPECT_TRUE(check({offload(0, 1, 2), prefetch(0, 3, 4)}).ok());
  limits_.device_budget_bytes = 100;
  EXPECT_TRUE(check({offload(0, 1, 2), prefetch(0, 4, 4)}).ok());
}

TEST_F(ValidatorTest, APrefetchTakesMemoryFromItsTrigger) {
  hardware_.device_memory_bytes = 149;
  expect_broken("device memory: op 2", {offload(0, 1, 2), prefetch(0, 2, 4)});
}

TEST_F(ValidatorTest, ATensorMayBeOffloadedOverTheEnd) {
  EXPECT_TRUE(check({prefetch(0, 0, 0), offload(0, 5, 0)}).ok());
}

TEST_F(ValidatorTest, TriggersAndDeadlinesAreOps) {
  expect_broken("trigger out of range: migrations[0]", {offload(0, 6, 0)});
  expect_broken("trigger out of range: migrations[0]", {offload(0, -1, 0)});
  expect_broken("deadline out of range: migrations[1]", {offload(0, 1, 2), prefetch(0, 4, 6)});
}

TEST_F(ValidatorTest, TheTierExists) {
  limits_.host_limit_bytes = 0;
  expect_broken("no such tier", {offload(0, 1, 2, Tier::kHost)});
  hardware_.drives.clear();
  expect_broken("no such tier", {offload(0, 1, 2)});
}

TEST_F(ValidatorTest, TransientsMoveOnlyWhileTheyLive) {
  EXPECT_TRUE(check({offload(1, 2, 2), prefetch(1, 3, 3)}).ok());
  expect_broken("tensor not alive", {offload(1, 1, 2), prefetch(1, 3, 3)});
  expect_broken("tensor not alive", {offload(1, 4, 5)});
}

TEST_F(ValidatorTest, OnlyResidentTensorsLeaveAndOnlyOffloadedOnesReturn) {
  expect_broken("already offloaded", {offload(0, 1, 2), drop(0, 2, 2), prefetch(0, 4, 4)});
  expect_broken("prefetch of a resident tensor", {prefetch(0, 1, 4)});
  expect_broken("wrong tier", {offload(0, 1, 2), prefetch(0, 4, 4, Tier::kHost)});
}

TEST_F(ValidatorTest, WhatIsUsedIsThere) {
  expect_broken("not resident: tensor 10 is offloaded when op 4",
                {offload(0, 1, 2), prefetch(0, 5, 0)});
}

// A lives on after op 3 without a use, until op 5.
class AfterTheLastUse : public ValidatorTest {
 protected:
  AfterTheLastUse() {
    trace_.ops[3].frees.clear();
    trace_.ops[5].frees = {1};
    hardware_.device_memory_bytes = 99;  // not W and A
  }
  const std::vector<Migration> w_moves_ = {offload(0, 1, 2), prefetch(0, 4, 4)};
  std::vector<Migration> with(std::vector<Migration> more) const {
    more.insert(more.begin(), w_moves_.begin(), w_moves_.end());
    return more;
  }
};

TEST_F(AfterTheLastUse, ATensorTakesMemoryUntilItLeaves) {
  expect_broken("device memory: op 4", w_moves_);
  EXPECT_TRUE(check(with({offload(1, 4, 5)})).ok());
  expect_broken("device memory: op 4", with({offload(1, 5, 5)}));
}

TEST_F(AfterTheLastUse, ACopyThatIsValidIsEnough) {
  EXPECT_TRUE(check(with({offload(1, 2, 2), prefetch(1, 3, 3), drop(1, 4, 5)})).ok());
  expect_broken("drop without copy", with({drop(1, 4, 5)}));
}

TEST_F(AfterTheLastUse, ItTakesRoomOnItsTierUntilItIsFreed) {
  trace_.ops.push_back(op({}));
  hardware_.device_memory_bytes = 110;
  hardware_.drives[0].capacity_bytes = 60;  // W's
  const std::vector<Migration> moves =
      with({prefetch(0, 0, 0), offload(1, 5, 5), offload(0, 6, 0)});
  EXPECT_EQ(check(moves), Status());
  std::swap(trace_.ops[5].frees, trace_.ops[6].frees);
  expect_broken("SSD capacity: 100 bytes rest there at op 6", moves);
}

TEST_F(ValidatorTest, WhatNoOpUsesStays) {
  trace_.tensors.push_back(tensor(13, 1, true));
  expect_broken("offload or drop without use", {offload(3, 1, 2)});
}

TEST_F(ValidatorTest, ADropNeedsACopyMadeSinceTheLastWrite) {
  EXPECT_TRUE(check({prefetch(0, 0, 0), drop(0, 1, 2), prefetch(0, 4, 4), offload(0, 5, 0)}).ok());
  expect_broken("drop without copy: migrations[2]",
                {offload(0, 1, 2), prefetch(0, 4, 4), drop(0, 5, 0), prefetch(0, 0, 0)});
  expect_broken("wrong tier", {prefetch(0, 0, 0), drop(0, 1, 2, Tier::kHost),
                               prefetch(0, 4, 4, Tier::kHost), offload(0, 5, 0)});
}

TEST_F(ValidatorTest, AFrozenTensorHasACopyFromTheStart) {
  trace_.ops[4] = op({0});
  EXPECT_TRUE(check({drop(0, 1, 2), prefetch(0, 4, 4)}).ok());
}

TEST_F(ValidatorTest, TiersHoldWhatRestsOnThem) {
  hardware_.host.capacity_bytes = 59;
  expect_broken("host capacity", {offload(0, 1, 2, Tier::kHost), prefetch(0, 4, 4, Tier::kHost)});
  hardware_.drives[0].capacity_bytes = 99;
  expect_broken("SSD capacity",
                {offload(0, 1, 2), offload(1, 2, 2), prefetch(1, 3, 3), prefetch(0, 4, 4)});
}

// The copy of W stays on the host from op 5 until the drop's read, also while W is on the device.
TEST_F(ValidatorTest, AKeptCopyCounts) {
  hardware_.host.capacity_bytes = 99;
  expect_broken("host capacity", {prefetch(0, 0, 0, Tier::kHost), drop(0, 1, 2, Tier::kHost),
                                  offload(1, 2, 2, Tier::kHost), prefetch(1, 3, 3, Tier::kHost),
                                  prefetch(0, 4, 4, Tier::kHost), offload(0, 5, 0, Tier::kHost)});
}

// The host tier has the copy until the tensor leaves for the drives, not until its next use.
TEST_F(ValidatorTest, ACopyThatGoesOnToAnotherTierCountsOnce) {
  trace_.tensors = {tensor(10, 60, true), tensor(11, 40, false)};
  trace_.ops = {op({0}), op({}), op({}), op({}, {1}), op({}), op({1}, {0}, {1})};
  hardware_.host.capacity_bytes = 60;
  EXPECT_EQ(
      check({offload(0, 1, 2, Tier::kHost), prefetch(0, 2, 3, Tier::kHost), offload(0, 3, 4),
             prefetch(0, 5, 5), offload(1, 4, 5, Tier::kHost), prefetch(1, 5, 5, Tier::kHost)}),
      Status());
}

TEST_F(ValidatorTest, TheWriteBudgetIsKept) {
  limits_.write_budget_bytes = 60;
  EXPECT_TRUE(check({offload(0, 1, 2), prefetch(0, 4, 4)}).ok());
  limits_.write_budget_bytes = 59;
  expect_broken("write budget", {offload(0, 1, 2), prefetch(0, 4, 4)});
  EXPECT_TRUE(check({offload(0, 1, 2, Tier::kHost), prefetch(0, 4, 4, Tier::kHost)}).ok());
}

}  // namespace
}  // namespace teraio::plan
