#include "runtime/run_limits.h"

#include <gtest/gtest.h>

#include "plan/scenario.h"

namespace teraio::runtime {
namespace {

using testing::machine;

class RunLimitsTest : public ::testing::Test {
 protected:
  RunLimitsTest() {
    profile_.trace = testing::weight_and_activation();  // its largest op needs 60 bytes
    options_.device_budget_bytes = 10'000;
    options_.smallest_tensor_bytes = 0;
  }

  int64_t planned_budget(int64_t spare_bytes = 0) const {
    return *limits_for(profile_, machine(10'000), options_, spare_bytes).device_budget_bytes;
  }
  int64_t write_budget() const {
    return *limits_for(profile_, machine(10'000), options_, 0).write_budget_bytes;
  }

  iteration::Profile profile_;
  RunOptions options_;
};

TEST_F(RunLimitsTest, AHundredthOfTheBudgetIsLeftFree) { EXPECT_EQ(planned_budget(), 9'900); }

TEST_F(RunLimitsTest, MemoryThatNoOpTouchesIsNotPlannedWith) {
  profile_.untouched_bytes = 4'000;
  EXPECT_EQ(planned_budget(), 5'900);
}

TEST_F(RunLimitsTest, WhatTheDeviceWantsToSpareIsLeftFree) {
  EXPECT_EQ(planned_budget(1'000), 8'900);
}

TEST_F(RunLimitsTest, TheLargestOpComesBeforeWhatTheDeviceWantsToSpare) {
  EXPECT_EQ(planned_budget(9'839), 61);
  EXPECT_EQ(planned_budget(9'841), 60);
  EXPECT_EQ(planned_budget(50'000), 60);
}

TEST_F(RunLimitsTest, ABudgetThatIsTooSmallForAnOpIsNotMadeLarger) {
  options_.device_budget_bytes = 50;
  EXPECT_EQ(planned_budget(), 50);
  EXPECT_EQ(planned_budget(20), 50);
}

TEST_F(RunLimitsTest, TheLeastBudgetLeavesTheLargestOpWhatItNeeds) {
  profile_.untouched_bytes = 4'000;
  options_.device_budget_bytes = least_budget_bytes(profile_, 0);
  EXPECT_GE(planned_budget(), 60);
  options_.device_budget_bytes -= 2;  // rounding takes one
  EXPECT_LT(planned_budget(), 60);
}

TEST_F(RunLimitsTest, TheHostTierIsTheLimitOfHostMemory) {
  options_.host_limit_bytes = 5'000;  // of which staging takes a part
  const plan::Limits limits = limits_for(profile_, machine(10'000, 3'000), options_, 0);
  EXPECT_EQ(limits.host_limit_bytes, 3'000);
}

TEST_F(RunLimitsTest, SmallTensorsDoNotMoveInPlansEither) {
  options_.smallest_tensor_bytes = 50;
  EXPECT_EQ(limits_for(profile_, machine(10'000), options_, 0).smallest_tensor_bytes, 50);
  EXPECT_EQ(planned_budget(50'000), 90) << "the activation stays beside the largest op";
}

TEST_F(RunLimitsTest, WithoutAWriteBudgetWritesAreNotLimited) {
  EXPECT_FALSE(limits_for(profile_, machine(10'000), options_, 0).write_budget_bytes.has_value());
}

TEST_F(RunLimitsTest, AWriteBudgetPerIterationIsThatOfThePlan) {
  options_.write_budget_bytes = 700;
  EXPECT_EQ(write_budget(), 700);
}

TEST_F(RunLimitsTest, AWriteBudgetPerDayIsDividedByTheIterationsOfADay) {
  for (trace::Op& op : profile_.trace.ops) op.duration_ns = 24'000'000'000;  // 600 a day
  options_.write_budget_bytes = 1'200'000;
  options_.write_budget_period_seconds = 24 * 60 * 60;
  EXPECT_EQ(write_budget(), 2'000);
}

TEST_F(RunLimitsTest, AnIterationThatTakesNoTimeMayWriteNothing) {
  for (trace::Op& op : profile_.trace.ops) op.duration_ns = 0;
  options_.write_budget_bytes = 1'200'000;
  options_.write_budget_period_seconds = 60;
  EXPECT_EQ(write_budget(), 0);
}

}  // namespace
}  // namespace teraio::runtime
