#include "learn/planning_policy.h"

#include <gtest/gtest.h>

namespace teraio::learn {
namespace {

using Plan = IterationFacts::Plan;

// The iteration was recorded, and is the first one of its pattern.
IterationFacts new_iteration() {
  IterationFacts iteration;
  iteration.is_recorded = true;
  iteration.has_pattern = true;
  iteration.pattern_iterations = 1;
  return iteration;
}

IterationFacts on_plan(int64_t iterations_on_plan) {
  IterationFacts iteration;
  iteration.was_as_expected = true;
  iteration.has_pattern = true;
  iteration.plan = Plan::kMade;
  iteration.is_pattern_planned = true;
  iteration.iterations_on_plan = iterations_on_plan;
  return iteration;
}

using It = IterationFacts&;
using Step = PlanningStep;

struct Situation {
  const char* name;
  IterationFacts iteration;
  void (*change)(It it);
  Step step;
};

TEST(PlanningPolicy, EachIterationHasItsStep) {
  const IterationFacts fresh = new_iteration();
  IterationFacts again = fresh;
  again.is_repeated = true;
  IterationFacts second = on_plan(2);
  IterationFacts third = on_plan(3);
  third.is_search_due = second.is_search_due = true;
  Situation situations[] = {
      {"the first of all", fresh, [](It) {}, Step::kRecord},
      {"like the one before", again, [](It) {}, Step::kPlan},
      {"the second in turns", fresh, [](It it) { it.pattern_iterations = 2; }, Step::kRecord},
      {"the third in turns", fresh, [](It it) { it.pattern_iterations = 3; }, Step::kPlan},
      {"other sizes", fresh, [](It it) { it.is_pattern_planned = true; }, Step::kPlan},
      {"other sizes, too much planning", fresh,
       [](It it) {
         it.is_pattern_planned = it.is_served = true;
         it.is_planning_affordable = false;
       },
       Step::kRecord},
      {"an evaluation, too much planning", fresh,
       [](It it) { it.is_unlike_followed = true, it.is_planning_affordable = false; }, Step::kPlan},
      {"an evaluation", fresh, [](It it) { it.is_unlike_followed = true; }, Step::kPlan},
      {"planned just now", again, [](It it) { it.plan = Plan::kBeingMade; }, Step::kWait},
      {"planned", again, [](It it) { it.plan = Plan::kMade; }, Step::kFollow},
      {"planned in vain", again, [](It it) { it.plan = Plan::kFailed; }, Step::kGiveUp},
      {"not recorded", again, [](It it) { it.is_recorded = false; }, Step::kRecord},
      {"without a planner", again, [](It it) { it.can_plan = false; }, Step::kRecord},
      {"followed without a plan", on_plan(0), [](It it) { it.plan = Plan::kNone; }, Step::kFollow},
      {"the first on a plan", on_plan(1), [](It) {}, Step::kFollow},
      {"the second, made again before a search", second, [](It) {}, Step::kReplan},
      {"being made again", second, [](It it) { it.plan = Plan::kBeingMade; }, Step::kWait},
      {"the third on a plan", on_plan(3), [](It) {}, Step::kFollow},
      {"a search is due", third, [](It) {}, Step::kSearch},
      {"a search, other ops", third, [](It it) { it.was_as_expected = false; }, Step::kFollow},
      {"a search, far off", third, [](It it) { it.far_iterations = 2; }, Step::kReplan},
      {"far off once", on_plan(20), [](It it) { it.far_iterations = 1; }, Step::kFollow},
      {"far off twice", on_plan(20), [](It it) { it.far_iterations = 2; }, Step::kReplan},
      {"far off, and just made again", on_plan(20),
       [](It it) { it.far_iterations = 2, it.is_replanning_due = false; }, Step::kFollow},
  };
  for (auto& [name, iteration, change, step] : situations) {
    change(iteration);
    EXPECT_EQ(next_step(iteration), step) << name;
  }
}

TEST(PlanningPolicy, PlansMayTakeAFiftiethOfTheTime) {
  EXPECT_TRUE(is_affordable(20, 1000));
  EXPECT_FALSE(is_affordable(21, 1000));
}

TEST(PlanningPolicy, ATenthOfThePredictionIsFarFromIt) {
  EXPECT_FALSE(is_far_from(1000, 1100));
  EXPECT_TRUE(is_far_from(1000, 1101));
  EXPECT_FALSE(is_far_from(1000, 900));
  EXPECT_TRUE(is_far_from(1000, 899));
}

TEST(SearchStep, APlanTakesOverWhenItIsOnePercentBetter) {
  SearchFacts search = {.is_followed = true, .has_ended = true, .step_before_ns = 1000};
  search.step_ns = 990;
  EXPECT_EQ(next_search_step(search), SearchStep::kTakeOver);
  search.step_ns = 991;
  EXPECT_EQ(next_search_step(search), SearchStep::kEnd);
  search.step_ns = 0;
  EXPECT_EQ(next_search_step(search), SearchStep::kEnd) << "nothing was found";
}

TEST(SearchStep, ASearchGoesOnWhileItsPlanIsFollowed) {
  EXPECT_EQ(next_search_step({.is_followed = true}), SearchStep::kGoOn);
  EXPECT_EQ(next_search_step({.is_followed = false}), SearchStep::kEnd);
  EXPECT_EQ(next_search_step({.has_ended = true, .step_ns = 1, .step_before_ns = 1000}),
            SearchStep::kEnd)
      << "the program has left the pattern";
}

TEST(RecordingState, ExpectedIterationsEndTheRecording) {
  EXPECT_TRUE(RecordingState().is_wanted);
  EXPECT_TRUE(next_recording({}, new_iteration()).is_wanted);
  EXPECT_FALSE(next_recording({}, on_plan(1)).is_wanted);
}

TEST(RecordingState, APatternWithEnoughSizesIsNotRecordedAnyMore) {
  IterationFacts iteration = new_iteration();
  iteration.is_pattern_full = true;
  EXPECT_TRUE(next_recording({}, iteration).is_wanted) << "it has no plan yet";
  iteration.is_pattern_planned = true;
  EXPECT_FALSE(next_recording({}, iteration).is_wanted);
}

TEST(RecordingState, AnUnknownIterationIsAwaitedAWhile) {
  RecordingState state = next_recording({.is_wanted = false}, IterationFacts());
  for (int i = 1; i < RecordingState::kAwaitedCount; ++i) {
    state = next_recording(state, on_plan(i));
    EXPECT_TRUE(state.is_wanted) << i;
  }
  EXPECT_FALSE(next_recording(state, on_plan(100)).is_wanted);
}

TEST(RecordingState, OnceItIsRecordedItIsNotAwaited) {
  RecordingState state = next_recording({}, IterationFacts());
  state = next_recording(state, new_iteration());
  EXPECT_FALSE(next_recording(state, on_plan(1)).is_wanted);
}

}  // namespace
}  // namespace teraio::learn
