#include "engine/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "base/clock.h"

namespace teraio::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Steps of 100 ns with four ops each.
class TimelineTest : public ::testing::Test {
 protected:
  void run_steps(Timeline& timeline, int64_t count) {
    for (; count > 0; --count) {
      timeline.start_step(next_step_++);
      for (int i = 0; i < 4; ++i) {
        clock_.advance_to(clock_.now_ns() + 25);
        if (timeline.is_on())
          timeline.add_op({.start_ns = clock_.now_ns() - 20, .end_ns = clock_.now_ns()});
      }
      timeline.end_step(clock_.now_ns(), IterationRecord::Mode::kPlanned);
    }
    timeline.start_step(next_step_);
  }

  static std::vector<int64_t> steps_of(const TimelineRecord& record) {
    std::vector<int64_t> steps;
    for (const StepSpan& step : record.steps) steps.push_back(step.index);
    return steps;
  }

  VirtualClock clock_;
  int64_t next_step_ = 0;
};

TEST_F(TimelineTest, HasTheNewestStepsAndTheUnfinishedOne) {
  Timeline timeline({.begin = -2}, clock_);
  run_steps(timeline, 5);
  clock_.advance_to(510);
  timeline.add_op({.start_ns = 501, .end_ns = 510});
  const TimelineRecord record = timeline.record();
  EXPECT_THAT(steps_of(record), ElementsAre(3, 4));
  EXPECT_EQ(record.start_ns, 300);
  EXPECT_EQ(record.ops.size(), 9u);
  EXPECT_EQ(record.ops.back().end_ns, 510);
  EXPECT_FALSE(record.is_cut);
}

TEST_F(TimelineTest, BeforeAnyStepHasEndedItHasTheUnfinishedOne) {
  Timeline timeline({.begin = -2}, clock_);
  timeline.start_step(0);
  timeline.add_op({.start_ns = 1, .end_ns = 2});
  EXPECT_EQ(timeline.record().ops.size(), 1u);
  EXPECT_THAT(timeline.record().steps, IsEmpty());
}

TEST_F(TimelineTest, RecordsOnlyTheStepsThatAreAskedFor) {
  Timeline timeline({.begin = 1, .end = 3}, clock_);
  run_steps(timeline, 5);
  EXPECT_FALSE(timeline.is_on());
  EXPECT_THAT(steps_of(timeline.record()), ElementsAre(1, 2));
  EXPECT_EQ(timeline.record().ops.size(), 8u);
}

TEST_F(TimelineTest, TooManyOpsLeaveTheNewest) {
  Timeline timeline({.begin = -3}, clock_, /*ops_max=*/6);
  run_steps(timeline, 5);
  const TimelineRecord record = timeline.record();
  EXPECT_TRUE(record.is_cut);
  EXPECT_EQ(record.ops.size(), 6u);
  EXPECT_EQ(record.start_ns, record.ops.front().end_ns - 1);
  EXPECT_THAT(steps_of(record), ElementsAre(3, 4)) << "the step before the newest has lost two ops";
}

TEST_F(TimelineTest, UnixTimeIsThatOfTheSystem) {
  const SteadyClock steady;
  Timeline timeline({.begin = 0}, steady);
  timeline.start_step(0);
  const int64_t unix_ns = timeline.record().unix_offset_ns + steady.now_ns();
  const int64_t seconds = unix_ns / 1'000'000'000 - std::time(nullptr);
  EXPECT_LE(std::abs(seconds), 1);
}

}  // namespace
}  // namespace teraio::engine
