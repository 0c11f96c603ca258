#include "learn/op_time_history.h"

#include <gtest/gtest.h>

#include <vector>

namespace teraio::learn {
namespace {

using Durations = std::vector<int64_t>;

class OpTimeHistoryTest : public ::testing::Test {
 protected:
  // An iteration whose ops take so long, one after the other.
  void iteration(const Durations& durations_ns, bool is_repeated = true) {
    history_.start_iteration(now_ns_, 0, /*is_timed=*/true);
    for (const int64_t duration_ns : durations_ns) history_.end_op(now_ns_ += duration_ns, 0);
    history_.end_iteration(++step_, is_repeated, is_repeated);
  }
  // What a profile of so many ops, each of 7 ns, becomes.
  Durations applied(size_t op_count, int64_t first_step = 0) {
    iteration::Profile profile;
    profile.trace.ops.resize(op_count);
    for (trace::Op& op : profile.trace.ops) op.duration_ns = 7;
    steps_ = history_.apply_to(profile, first_step);
    Durations durations_ns;
    for (const trace::Op& op : profile.trace.ops) durations_ns.push_back(op.duration_ns);
    return durations_ns;
  }

  OpTimeHistory history_{nullptr};
  int64_t now_ns_ = 1000;
  int64_t step_ = 0;
  std::optional<TimedSteps> steps_;  // of the times that were applied
};

TEST_F(OpTimeHistoryTest, WithoutTimesAProfileKeepsItsOwn) {
  EXPECT_EQ(applied(2), (Durations{7, 7}));
  iteration({10, 20, 30});
  EXPECT_EQ(applied(2), (Durations{7, 7})) << "times of other ops are none of these";
}

TEST_F(OpTimeHistoryTest, OfThreeIterationsTheMiddleTimeOfEachOpCounts) {
  iteration({10, 20});
  iteration({90, 20});
  iteration({10, 80});
  // The middle times are 10 and 20 ns; the middle iteration took 90 ns, three times their sum.
  EXPECT_EQ(applied(2), (Durations{30, 60}));
}

TEST_F(OpTimeHistoryTest, OldIterationsAreForgotten) {
  iteration({500, 500});
  for (int i = 0; i < 3; ++i) iteration({10, 20});
  EXPECT_EQ(applied(2), (Durations{10, 20}));
}

TEST_F(OpTimeHistoryTest, TimesOfEarlierStepsDoNotCount) {
  for (int i = 0; i < 2; ++i) iteration({500, 500});
  iteration({10, 20});
  EXPECT_EQ(applied(2, /*first_step=*/3), (Durations{10, 20}));
  ASSERT_TRUE(steps_);
  EXPECT_EQ(steps_->first, 3);
  EXPECT_EQ(steps_->last, 3);
  EXPECT_EQ(applied(2, /*first_step=*/4), (Durations{7, 7}));
  EXPECT_FALSE(steps_);
  applied(2);
  EXPECT_EQ(steps_->first, 1);
}

TEST_F(OpTimeHistoryTest, AnIterationOfOtherOpsBeginsAnew) {
  iteration({500, 500});
  iteration({10, 20}, /*is_repeated=*/false);
  EXPECT_EQ(applied(2), (Durations{10, 20}));
}

TEST_F(OpTimeHistoryTest, WaitingIsNoOpsTime) {
  history_.start_iteration(0, 100, /*is_timed=*/true);
  EXPECT_EQ(history_.end_op(50, 140), 10);
  EXPECT_EQ(history_.end_op(70, 140), 20);
}

TEST_F(OpTimeHistoryTest, WhatIsLeftOutIsNoOpsTime) {
  history_.start_iteration(0, 0, /*is_timed=*/true);
  history_.end_op(10, 0);
  history_.leave_out(30);
  EXPECT_EQ(history_.end_op(50, 0), 10);
}

TEST_F(OpTimeHistoryTest, AnIterationThatNobodyTimesLeavesTheTimesAlone) {
  iteration({10, 20});
  history_.start_iteration(now_ns_, 0, /*is_timed=*/false);
  EXPECT_FALSE(history_.is_timed());
  history_.end_iteration(++step_, /*is_repeated=*/true, /*are_wanted=*/true);
  EXPECT_EQ(applied(2), (Durations{10, 20}));
}

}  // namespace
}  // namespace teraio::learn
