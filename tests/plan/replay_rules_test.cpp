// Every rule of discards and recomputes, told by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/scenario.h"
#include "plan/validator.h"

namespace teraio::plan {
namespace {

using testing::discard;
using testing::offload;
using testing::op;
using testing::prefetch;
using testing::recompute;
using testing::tensor;

// A = f(W) and B, S = g(A) are made, op 2 needs room, and both are used again. S dies at once.
//
//   op        0   1   2   3   4   5
//   W   60    r   .   .   .   .   .      persistent
//   A   40    W   r   .   .   r
//   B   40        W   .   r   r
//   S   10        W
//   C   50            W
class ReplayRulesTest : public ::testing::Test {
 protected:
  enum Tensors : trace::TensorIndex { kW, kA, kB, kS, kC };

  ReplayRulesTest() {
    trace_.name = "test";
    trace_.source = "modelled";
    trace_.tensors = {tensor(10, 60, true), tensor(11, 40, false), tensor(12, 40, false),
                      tensor(13, 10, false), tensor(14, 50, false)};
    trace_.ops = {op({kW}, {kA}),     op({kA}, {kB, kS}, {kS}),
                  op({}, {kC}, {kC}), op({kB}),
                  op({kA, kB}),       op({})};
    trace_.ops[0].replayable = trace_.ops[1].replayable = true;
  }

  Status check(std::vector<Migration> migrations) const {
    return validate_plan({"test", std::move(migrations)}, trace_, hardware_, {});
  }
  void expect_broken(std::string_view rule, std::vector<Migration> migrations) const {
    const Status status = check(std::move(migrations));
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.message(), ::testing::StartsWith(std::string(rule)));
  }

  trace::Trace trace_;
  hardware::Hardware hardware_ = testing::machine(1000, 1000);
  // A chain, inputs first.
  const std::vector<Migration> chain_ = {discard(kA, 2), discard(kB, 2), recompute(kA, 3),
                                         recompute(kB, 3)};
};

TEST_F(ReplayRulesTest, AChainIsLegalWithItsInputsFirst) {
  EXPECT_EQ(check(chain_), Status());
  expect_broken("input-discarded: migrations[2] (recompute of tensor 12 at op 3): tensor 11",
                {discard(kA, 2), discard(kB, 2), recompute(kB, 3), recompute(kA, 3)});
}

TEST_F(ReplayRulesTest, ADiscardReleasesMemoryAtOnce) {
  hardware_.device_memory_bytes = 150;  // W, A, B and S at op 1
  trace_.tensors[kC].size_bytes = 60;
  expect_broken("device memory: op 2", {discard(kA, 2), recompute(kA, 4)});
  EXPECT_EQ(check(chain_), Status());
}

// B's other output S is made again beside it, and the op's workspace is needed again.
TEST_F(ReplayRulesTest, AReplayNeedsRoomForScratchAndWorkspace) {
  trace_.tensors.push_back(tensor(15, 10, false));  // alive when B is made again, not at op 1
  trace_.ops[2].writes.push_back(5);
  trace_.ops[5].reads.push_back(5);
  trace_.ops[1].workspace_bytes = 40;
  hardware_.device_memory_bytes = 200;  // W, A, B, S, E and the workspace
  EXPECT_EQ(check(chain_), Status());
  hardware_.device_memory_bytes = 199;
  expect_broken("device memory: the replay of op 1 (op) before op 3 needs 200 bytes", chain_);
}

TEST_F(ReplayRulesTest, AnEarlyFreeNeedsNoReplay) {
  trace_.ops[5].frees = {kB};
  EXPECT_EQ(check({discard(kB, 5)}), Status());
  expect_broken("not resident: tensor 12 is discarded when op 4", {discard(kB, 4)});
}

TEST_F(ReplayRulesTest, ATensorMayBeDiscardedTwiceAndMovedBetween) {
  EXPECT_EQ(check({discard(kA, 1), recompute(kA, 1), discard(kA, 2), recompute(kA, 4)}), Status());
  EXPECT_EQ(check({discard(kB, 2), recompute(kB, 3), offload(kB, 4, 4), prefetch(kB, 4, 4)}),
            Status());
}

TEST_F(ReplayRulesTest, DiscardPersistent) {
  expect_broken("discard-persistent: migrations[0]", {discard(kW, 1)});
}

TEST_F(ReplayRulesTest, WhatIsAwayIsNotDiscarded) {
  expect_broken("already offloaded", {offload(kB, 2, 2), discard(kB, 2), recompute(kB, 3)});
  expect_broken("already offloaded", {discard(kB, 2), discard(kB, 2), recompute(kB, 3)});
  expect_broken("already offloaded", {discard(kB, 2), offload(kB, 2, 2), recompute(kB, 3)});
  expect_broken("prefetch of a discarded tensor", {discard(kB, 2), prefetch(kB, 2, 3)});
}

TEST_F(ReplayRulesTest, WhatIsNotAliveIsNotDiscarded) {
  expect_broken("tensor not alive", {discard(kB, 1)});
  expect_broken("tensor not alive", {discard(kB, 5)});
}

TEST_F(ReplayRulesTest, RecomputeOfResident) {
  expect_broken("recompute-of-resident: migrations[0]", {recompute(kB, 3)});
  expect_broken("recompute-of-resident: migrations[2]",
                {discard(kB, 2), recompute(kB, 3), recompute(kB, 4)});
}

TEST_F(ReplayRulesTest, NotReplayable) {
  trace_.ops[1].replayable = false;
  expect_broken("not-replayable", chain_);
}

TEST_F(ReplayRulesTest, InputOverwritten) {
  trace_.ops[2].writes.push_back(kW);
  expect_broken("input-overwritten: migrations[2] (recompute of tensor 11 at op 3): tensor 10",
                chain_);
}

TEST_F(ReplayRulesTest, InputFreed) {
  trace_.ops[4].reads = {kB};
  trace_.ops[1].frees.push_back(kA);
  expect_broken("input-freed", {discard(kB, 2), recompute(kB, 3)});
}

class FreedInput : public ReplayRulesTest {
 protected:
  FreedInput() {
    trace_.ops[4].reads = {kB};
    trace_.ops[1].frees.push_back(kA);
  }
};

TEST_F(FreedInput, IsMadeAgainForTheReplaysBeforeTheSameOp) {
  EXPECT_EQ(check({discard(kB, 2), recompute(kA, 3), recompute(kB, 3)}), Status());
  expect_broken("input-freed: migrations[2]", {discard(kB, 2), recompute(kA, 2), recompute(kB, 3)});
}

TEST_F(FreedInput, IsMadeAgainOnceAndForAReader) {
  expect_broken("recompute-without-use: migrations[0]", {recompute(kA, 3)});
  expect_broken("recompute-of-resident: migrations[2]",
                {discard(kB, 2), recompute(kA, 3), recompute(kA, 3), recompute(kB, 3)});
}

TEST_F(FreedInput, TakesMemoryFromItsReplayToItsLastReader) {
  trace_.tensors.push_back(tensor(15, 10, false));
  trace_.ops[2].writes.push_back(5);
  trace_.ops[5].reads.push_back(5);
  const std::vector<Migration> plan = {discard(kB, 2), recompute(kA, 3), recompute(kB, 3)};
  hardware_.device_memory_bytes = 160;  // W, A, B, S and the tensor that is alive
  EXPECT_EQ(check(plan), Status());
  hardware_.device_memory_bytes = 159;
  expect_broken("device memory: the replay of op 1 (op) before op 3 needs 160 bytes", plan);
}

TEST_F(ReplayRulesTest, SeveralWriters) {
  trace_.ops[2].writes.push_back(kB);
  expect_broken("several-writers", {discard(kB, 3), recompute(kB, 3)});
  trace_.ops[2].writes.pop_back();
  trace_.ops[4] = op({kA}, {kB});  // a write after the replay does not matter
  EXPECT_EQ(check(chain_), Status());
}

TEST_F(ReplayRulesTest, ChangesAnother) {
  trace_.ops[1].writes.push_back(kW);
  expect_broken("changes-another", {discard(kB, 2), recompute(kB, 3)});
}

TEST_F(ReplayRulesTest, NoProducer) {
  trace_.ops[1] = op({kA, kB});
  expect_broken("no-producer", {discard(kB, 2), recompute(kB, 3)});
  trace_.ops[0].reads.push_back(kB);
  trace_.ops[1] = op({kA}, {kB});
  expect_broken("no-producer", {discard(kB, 2), recompute(kB, 3)});
}

TEST_F(ReplayRulesTest, RecomputeWithoutUse) {
  trace_.ops[5] = op({kA}, {}, {kB});
  expect_broken("recompute-without-use: migrations[1]", {discard(kB, 5), recompute(kB, 5)});
  expect_broken("recompute-without-use: migrations[1]",
                {discard(kB, 2), recompute(kB, 2), discard(kB, 2), recompute(kB, 3)});
}

TEST_F(ReplayRulesTest, OneReplayRestoresAllOutputsThatAreDiscarded) {
  trace_.ops[1].frees.clear();
  trace_.ops[4].reads.push_back(kS);
  EXPECT_EQ(check({discard(kB, 2), discard(kS, 2), recompute(kB, 3)}), Status());
  expect_broken("recompute-of-resident",
                {discard(kB, 2), discard(kS, 2), recompute(kB, 3), recompute(kS, 4)});
}

TEST_F(ReplayRulesTest, OtherBytes) {
  trace_.ops[1].frees.clear();
  trace_.ops[2].writes.push_back(kS);
  trace_.ops[4].reads.push_back(kS);
  expect_broken("other-bytes: migrations[2] (recompute of tensor 12 at op 3): tensor 13",
                {discard(kB, 3), discard(kS, 3), recompute(kB, 3)});
}

TEST_F(ReplayRulesTest, AReplayWaitsForInputsOnATier) {
  expect_broken("not resident: tensor 10 is offloaded when the replay of op 0 (op) before op 3",
                {discard(kA, 2), offload(kW, 2, 2), recompute(kA, 3), prefetch(kW, 3, 0)});
  EXPECT_EQ(check({discard(kA, 2), offload(kW, 2, 2), prefetch(kW, 3, 3), recompute(kA, 3)}),
            Status());
}

TEST_F(ReplayRulesTest, ATriggerIsNotAfterItsReplay) {
  Migration late = recompute(kB, 3);
  late.trigger_op = 4;
  expect_broken("trigger out of range", {discard(kB, 2), late});
  late.trigger_op = 2;
  EXPECT_EQ(check({discard(kB, 2), late}), Status());
}

}  // namespace
}  // namespace teraio::plan
