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
  iteration.is_unlike_followed = true;
  return iteration;
}

IterationFacts expected_iteration(int64_t iterations_on_plan) {
  IterationFacts iteration;
  iteration.was_as_expected = true;
  iteration.has_pattern = true;
  iteration.plan = Plan::kMade;
  iteration.is_pattern_planned = true;
  iteration.iterations_on_plan = iterations_on_plan;
  return iteration;
}

TEST(PlanningPolicy, TheFirstIterationOfAllWaitsForAnother) {
  EXPECT_EQ(next_step(new_iteration()), PlanningStep::kRecord);
}

TEST(PlanningPolicy, AnIterationLikeTheOneBeforeIsPlanned) {
  IterationFacts iteration = new_iteration();
  iteration.is_repeated = true;
  EXPECT_EQ(next_step(iteration), PlanningStep::kPlan);
  iteration.is_repeated = false;
  iteration.is_nearly_repeated = true;
  EXPECT_EQ(next_step(iteration), PlanningStep::kPlan);
}

TEST(PlanningPolicy, IterationsThatTakeTurnsArePlannedTheThirdTime) {
  IterationFacts iteration = new_iteration();
  iteration.pattern_iterations = 2;
  EXPECT_EQ(next_step(iteration), PlanningStep::kRecord);
  iteration.pattern_iterations = 3;
  EXPECT_EQ(next_step(iteration), PlanningStep::kPlan);
}

TEST(PlanningPolicy, OtherSizesOfAPlannedPatternArePlanned) {
  IterationFacts iteration = new_iteration();
  iteration.is_unlike_followed = false;
  iteration.is_plan_due = true;
  iteration.is_pattern_planned = true;
  EXPECT_EQ(next_step(iteration), PlanningStep::kPlan);
}

TEST(PlanningPolicy, AnEvaluationBesidePlannedStepsIsPlannedAtOnce) {
  IterationFacts iteration = new_iteration();
  iteration.is_plan_due = true;
  EXPECT_EQ(next_step(iteration), PlanningStep::kPlan);
}

TEST(PlanningPolicy, APlannedStepWithAnOpMoreIsNoNewPatternYet) {
  IterationFacts iteration = new_iteration();
  iteration.is_plan_due = true;
  iteration.is_unlike_followed = false;
  EXPECT_EQ(next_step(iteration), PlanningStep::kRecord);
}

TEST(PlanningPolicy, NothingIsPlannedTwice) {
  IterationFacts iteration = new_iteration();
  iteration.is_repeated = true;
  iteration.plan = Plan::kBeingMade;
  EXPECT_EQ(next_step(iteration), PlanningStep::kWait);
  iteration.plan = Plan::kMade;
  EXPECT_EQ(next_step(iteration), PlanningStep::kFollow);
  iteration.plan = Plan::kFailed;
  EXPECT_EQ(next_step(iteration), PlanningStep::kGiveUp);
}

TEST(PlanningPolicy, WhatWasNotRecordedCannotBePlanned) {
  IterationFacts iteration = new_iteration();
  iteration.is_repeated = true;
  iteration.is_recorded = false;
  EXPECT_EQ(next_step(iteration), PlanningStep::kRecord);
}

TEST(PlanningPolicy, WithoutAPlannerIterationsAreOnlyRecorded) {
  IterationFacts iteration = new_iteration();
  iteration.is_repeated = true;
  iteration.can_plan = false;
  EXPECT_EQ(next_step(iteration), PlanningStep::kRecord);
}

TEST(PlanningPolicy, APlanIsMadeAgainAfterTwoIterationsOnIt) {
  EXPECT_EQ(next_step(expected_iteration(1)), PlanningStep::kFollow);
  EXPECT_EQ(next_step(expected_iteration(2)), PlanningStep::kReplan);
  EXPECT_EQ(next_step(expected_iteration(3)), PlanningStep::kFollow);
}

TEST(PlanningPolicy, APlanThatIsBeingMadeAgainIsWaitedFor) {
  IterationFacts iteration = expected_iteration(2);
  iteration.plan = Plan::kBeingMade;
  EXPECT_EQ(next_step(iteration), PlanningStep::kWait);
}

TEST(PlanningPolicy, APlanIsMadeAgainAfterTwoIterationsFarFromItsPrediction) {
  IterationFacts iteration = expected_iteration(20);
  iteration.far_iterations = 1;
  EXPECT_EQ(next_step(iteration), PlanningStep::kFollow);
  iteration.far_iterations = 2;
  EXPECT_EQ(next_step(iteration), PlanningStep::kReplan);
  iteration.is_replanning_due = false;
  EXPECT_EQ(next_step(iteration), PlanningStep::kFollow) << "it has just been made again";
}

TEST(PlanningPolicy, ATenthOfThePredictionIsFarFromIt) {
  EXPECT_FALSE(is_far_from(1000, 1100));
  EXPECT_TRUE(is_far_from(1000, 1101));
  EXPECT_FALSE(is_far_from(1000, 900));
  EXPECT_TRUE(is_far_from(1000, 899));
}

TEST(PlanningPolicy, ASearchBeginsWithThePlanThatWasMadeAgain) {
  IterationFacts iteration = expected_iteration(1);
  iteration.is_search_due = true;
  EXPECT_EQ(next_step(iteration), PlanningStep::kFollow);
  iteration.iterations_on_plan = 2;
  EXPECT_EQ(next_step(iteration), PlanningStep::kReplan);
  iteration.iterations_on_plan = 3;
  EXPECT_EQ(next_step(iteration), PlanningStep::kSearch);
  iteration.was_as_expected = false;
  EXPECT_EQ(next_step(iteration), PlanningStep::kFollow);
}

TEST(PlanningPolicy, ANewPlanComesBeforeASearch) {
  IterationFacts iteration = expected_iteration(3);
  iteration.is_search_due = true;
  iteration.far_iterations = 2;
  EXPECT_EQ(next_step(iteration), PlanningStep::kReplan);
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

TEST(PlanningPolicy, AFollowedIterationWithoutAPlanIsLeftAlone) {
  IterationFacts iteration = expected_iteration(0);
  iteration.plan = Plan::kNone;
  EXPECT_EQ(next_step(iteration), PlanningStep::kFollow);
}

TEST(RecordingState, ExpectedIterationsEndTheRecording) {
  EXPECT_TRUE(RecordingState().is_wanted);
  EXPECT_TRUE(next_recording({}, new_iteration()).is_wanted);
  EXPECT_FALSE(next_recording({}, expected_iteration(1)).is_wanted);
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
    state = next_recording(state, expected_iteration(i));
    EXPECT_TRUE(state.is_wanted) << i;
  }
  EXPECT_FALSE(next_recording(state, expected_iteration(100)).is_wanted);
}

TEST(RecordingState, OnceItIsRecordedItIsNotAwaited) {
  RecordingState state = next_recording({}, IterationFacts());
  state = next_recording(state, new_iteration());
  EXPECT_FALSE(next_recording(state, expected_iteration(1)).is_wanted);
}

}  // namespace
}  // namespace teraio::learn
