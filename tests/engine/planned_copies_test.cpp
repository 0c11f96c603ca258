#include "engine/planned_copies.h"

#include <gtest/gtest.h>

#include "iteration/fixture/planned_program.h"

namespace teraio::engine {
namespace {

using testing::kUnitBytes;
using testing::PlannedProgram;

class PlannedCopiesTest : public ::testing::Test {
 protected:
  PlannedCopies copies(plan::Tier tier = plan::Tier::kSsd) const {
    return planned_copies(program_.schedule(), tier, [](trace::TensorIndex) { return true; });
  }
  trace::TensorIndex persistent() { return program_.persistent(next_id_++, 2 * kUnitBytes); }

  PlannedProgram program_;
  uint64_t next_id_ = 1;
};

void expect_times(const storage::PlannedCopy& copy, int64_t begin, int64_t end) {
  EXPECT_EQ(copy.begin, begin);
  EXPECT_EQ(copy.end, end);
}

TEST_F(PlannedCopiesTest, LiveFromTheFirstDepartureToTheTensorsDeath) {
  const trace::TensorIndex other = program_.born(1);
  const trace::TensorIndex tensor = program_.born(3);
  program_.op({}, {tensor, other});
  program_.idle_ops(4);
  program_.op({tensor});
  program_.op({}, {}, {tensor});
  program_.idle_ops(2);
  program_.offload(tensor, 3);
  program_.offload(tensor, 2);
  const PlannedCopies planned = copies();
  ASSERT_EQ(planned.copies.size(), 1u);
  EXPECT_EQ(planned.copies[0].size_bytes, 3 * kUnitBytes);
  expect_times(planned.copies[0], 2, 7);
  EXPECT_EQ(planned.of_tensor, (std::vector<int32_t>{-1, 0}));
}

TEST_F(PlannedCopiesTest, WithoutAFreeATensorDiesAfterItsLastOp) {
  const trace::TensorIndex tensor = program_.born(1);
  program_.op({}, {tensor});
  program_.idle_ops(2);
  program_.op({tensor});
  program_.idle_ops(2);
  program_.offload(tensor, 1);
  expect_times(copies().copies.at(0), 1, 4);
}

TEST_F(PlannedCopiesTest, OfPersistentTensorsAreThereAllTheTime) {
  const trace::TensorIndex weight = persistent();
  program_.op({weight});
  program_.idle_ops(3);
  program_.drop(weight, 2);
  expect_times(copies().copies.at(0), 0, 4);
}

// It may be alive when the next iteration begins: a gradient that waits for zero_grad.
TEST_F(PlannedCopiesTest, WhatTheLastOpFreesOutlivesTheIteration) {
  const trace::TensorIndex gradient = program_.born(1);
  program_.op({}, {gradient});
  program_.op({gradient});
  program_.idle_ops(2);
  program_.op({}, {}, {gradient});
  program_.offload(gradient, 2);
  expect_times(copies().copies.at(0), 0, 5);
}

TEST_F(PlannedCopiesTest, EachTierHasItsOwn) {
  const trace::TensorIndex a = program_.born(1);
  const trace::TensorIndex b = program_.born(2);
  program_.op({}, {a, b});
  program_.idle_ops(2);
  program_.op({a, b});
  program_.offload(a, 1, plan::Tier::kHost);
  program_.offload(b, 1, plan::Tier::kSsd);
  program_.prefetch(a, 2, 3);
  ASSERT_EQ(copies(plan::Tier::kHost).copies.size(), 1u);
  EXPECT_EQ(copies(plan::Tier::kHost).copies[0].size_bytes, kUnitBytes);
  ASSERT_EQ(copies(plan::Tier::kSsd).copies.size(), 1u);
  EXPECT_EQ(copies(plan::Tier::kSsd).copies[0].size_bytes, 2 * kUnitBytes);
}

TEST_F(PlannedCopiesTest, OfATensorThatChangesItsTierMayNeedTooMuchRoom) {
  const trace::TensorIndex weight = persistent();
  program_.op({weight});
  program_.idle_ops(3);
  program_.offload(weight, 1, plan::Tier::kHost);
  EXPECT_FALSE(copies(plan::Tier::kHost).has_part_time);
  program_.offload(weight, 3, plan::Tier::kSsd);
  EXPECT_TRUE(copies(plan::Tier::kHost).has_part_time);
  expect_times(copies(plan::Tier::kHost).copies.at(0), 0, 4);
}

TEST_F(PlannedCopiesTest, WhatHasItsRoomIsLeftOut) {
  const trace::TensorIndex weight = persistent();
  const trace::TensorIndex state = persistent();
  program_.op({weight, state});
  program_.idle_ops(2);
  program_.offload(weight, 1);
  program_.offload(state, 1);
  const PlannedCopies planned =
      planned_copies(program_.schedule(), plan::Tier::kSsd,
                     [&](trace::TensorIndex tensor) { return tensor != weight; });
  EXPECT_EQ(planned.of_tensor, (std::vector<int32_t>{-1, 0}));
}

TEST_F(PlannedCopiesTest, AnEmptyScheduleKeepsNothing) {
  EXPECT_TRUE(planned_copies(iteration::Schedule(), plan::Tier::kSsd, [](trace::TensorIndex) {
                return true;
              }).copies.empty());
}

}  // namespace
}  // namespace teraio::engine
