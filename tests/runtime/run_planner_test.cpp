#include "runtime/run_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_file.h"
#include "plan/scenario.h"
#include "plan/validator.h"
#include "testing/captured_log.h"
#include "testing/scratch_directory.h"

namespace teraio::runtime {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::machine;

constexpr const char* kName = "iteration 0123456789abcdef 0000000000000001";
constexpr const char* kOtherSizes = "iteration 0123456789abcdef 0000000000000002";
constexpr const char* kOtherOps = "iteration fedcba9876543210 0000000000000001";

class RunPlannerTest : public ::testing::Test {
 protected:
  RunPlannerTest() {
    profile_.trace = testing::weight_and_activation();
    profile_.trace.name = kName;
    options_.device_budget_bytes = 90;  // so small that its margin is no byte
    options_.smallest_tensor_bytes = 0;
  }

  // A plan that moves both tensors, unlike those that planners make, which move as little as can
  // be.
  plan::Plan plan_of_both() const {
    return {profile_.trace.name,
            {testing::offload(0, 1, 2), testing::offload(1, 2, 3), testing::prefetch(1, 3, 3),
             testing::prefetch(0, 4, 4)}};
  }
  void give(const plan::Plan& plan) {
    options_.plan_path = scratch_.path() / "plan.json";
    const Status written =
        write_plan(plan, trace::with_repeatable_ids(profile_.trace), *options_.plan_path);
    ASSERT_TRUE(written.ok()) << written.message();
    const Status opened = planner_.open_given_plan();
    ASSERT_TRUE(opened.ok()) << opened.message();
  }
  Status open(const std::string& text) {
    options_.plan_path = scratch_.path() / "plan.json";
    EXPECT_TRUE(write_text_file(*options_.plan_path, text).ok());
    return planner_.open_given_plan();
  }
  Result<plan::Plan> make_plan() { return planner_.make_plan(profile_, machine(149), 0); }
  plan::Plan made_plan() {
    Result<plan::Plan> plan = make_plan();
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return plan.ok() ? *plan : plan::Plan();
  }
  int64_t written_bytes(const plan::Plan& plan) const {
    int64_t bytes = 0;
    for (const plan::Migration& migration : plan.migrations)
      if (migration.action == plan::Action::kOffload)
        bytes += profile_.trace.tensors[migration.tensor].size_bytes;
    return bytes;
  }

  testing::ScratchDirectory scratch_;
  testing::CapturedLog log_;
  iteration::Profile profile_;
  RunOptions options_;
  RunPlanner planner_{options_};
  const std::atomic<bool> stop_ = false;
};

TEST_F(RunPlannerTest, PlansKeepTheBudgetAndAreSilent) {
  const plan::Plan plan = made_plan();
  plan::Limits limits;
  limits.device_budget_bytes = 90;
  EXPECT_TRUE(validate_plan(plan, profile_.trace, machine(149), limits).ok());
  EXPECT_FALSE(plan.migrations.empty());
  EXPECT_EQ(log_.text(), "");
}

TEST_F(RunPlannerTest, APlanIsPredicted) {
  EXPECT_FALSE(planner_.prediction(kName).has_value());
  made_plan();
  ASSERT_TRUE(planner_.prediction(kName).has_value());
  EXPECT_EQ(planner_.prediction(kName)->ideal_ns, 600);
  EXPECT_GE(planner_.prediction(kName)->step_ns, 600);
  EXPECT_EQ(planner_.prediction(kName)->limits.device_budget_bytes, 90);
  EXPECT_FALSE(planner_.prediction(kOtherSizes).has_value());
}

TEST_F(RunPlannerTest, AJobThatCannotFitHasNeitherPlanNorPrediction) {
  options_.device_budget_bytes = 59;
  EXPECT_EQ(make_plan().status().code(), ErrorCode::kOutOfMemory);
  EXPECT_FALSE(planner_.prediction(kName).has_value());
}

TEST_F(RunPlannerTest, APlanWithinTheWriteBudgetIsSilent) {
  options_.write_budget_bytes = written_bytes(made_plan());
  EXPECT_LE(written_bytes(made_plan()), *options_.write_budget_bytes);
  EXPECT_EQ(log_.text(), "");
}

TEST_F(RunPlannerTest, AWriteBudgetThatNoPlanKeepsGivesThePlanThatWritesLeast) {
  options_.write_budget_bytes = 1;
  const plan::Plan plan = made_plan();
  EXPECT_EQ(planner_.prediction(kName)->limits.write_budget_bytes, 1);
  EXPECT_THAT(log_.text(), ContainsRegex("the write budget allows 1 B per iteration, and about .* "
                                         "is the least that this device budget needs"));
  options_.write_budget_bytes = written_bytes(plan);
  EXPECT_EQ(written_bytes(made_plan()), written_bytes(plan)) << "nothing less is possible";
}

TEST_F(RunPlannerTest, AFailureThatIsNotTheWriteBudgetsStaysWhatItIs) {
  options_.write_budget_bytes = 1;
  options_.device_budget_bytes = 59;
  EXPECT_EQ(make_plan().status().code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(log_.text(), "");
}

TEST_F(RunPlannerTest, TheGivenPlanIsExecutedAsItIs) {
  give(plan_of_both());
  EXPECT_EQ(made_plan(), plan_of_both());
  EXPECT_EQ(log_.text(), "");
  EXPECT_TRUE(planner_.prediction(kName).has_value());
}

TEST_F(RunPlannerTest, TheGivenPlanOfOtherSizesIsUsedWhereItFits) {
  give(plan_of_both());
  profile_.trace.name = kOtherSizes;
  profile_.trace.tensors[1].size_bytes = 39;
  EXPECT_EQ(made_plan(), plan_of_both());
  made_plan();
  EXPECT_THAT(log_.text(), ContainsRegex("^[^\n]*plan.json was made for other sizes of the same "
                                         "ops: it is used for these, too\n$"))
      << "it is said once";
}

TEST_F(RunPlannerTest, WhereTheGivenPlanDoesNotFitOtherSizesAnotherOneIsMade) {
  give({kName, {testing::offload(0, 1, 2), testing::prefetch(0, 4, 4)}});
  profile_.trace.name = kOtherSizes;
  profile_.trace.tensors[1].size_bytes = 41;
  const plan::Plan plan = made_plan();
  EXPECT_EQ(plan.trace, kOtherSizes);
  EXPECT_NE(plan.migrations.size(), 2u);
  EXPECT_THAT(log_.text(), HasSubstr("it does not fit these, and another one is made"));
}

TEST_F(RunPlannerTest, AGivenPlanWithinTheWriteBudgetIsUsed) {
  give(plan_of_both());
  options_.write_budget_bytes = written_bytes(plan_of_both());
  EXPECT_EQ(made_plan(), plan_of_both());
  EXPECT_EQ(log_.text(), "");
}

TEST_F(RunPlannerTest, AGivenPlanThatWritesTooMuchIsReplaced) {
  give(plan_of_both());
  options_.device_budget_bytes = 149;
  options_.write_budget_bytes = 99;
  EXPECT_NE(made_plan(), plan_of_both());
  EXPECT_THAT(log_.text(), ContainsRegex("plan.json writes 100 B per iteration, and the write "
                                         "budget allows 99 B: it is not used"));
}

TEST_F(RunPlannerTest, AGivenPlanForAnotherProgramIsRefused) {
  give(plan_of_both());
  profile_.trace.name = kOtherOps;
  const Result<plan::Plan> refused = make_plan();
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(),
              ContainsRegex("plan.json.*Make one for this program with `teraio run --save-plan`"));
}

TEST_F(RunPlannerTest, IterationsOfOtherOpsAreOnlyPlannedOnceTheGivenPlanHasBeenUsed) {
  give(plan_of_both());
  made_plan();
  profile_.trace.name = kOtherOps;
  EXPECT_EQ(made_plan().trace, kOtherOps);
}

TEST_F(RunPlannerTest, AnyPlanFileMayBeMissingBrokenOrForAModel) {
  options_.plan_path = scratch_.path() / "absent.json";
  EXPECT_THAT(planner_.open_given_plan().message(), HasSubstr("absent.json"));
  EXPECT_THAT(open("{").message(), HasSubstr("plan.json"));
  for (const std::string trace : {"l8", "iteration 0123456789abcdef"})
    EXPECT_THAT(
        open(R"({"format": "teraio-plan/1", "trace": ")" + trace + R"(", "migrations": []})")
            .message(),
        ContainsRegex("plan.json: trace: expected the name of a recorded iteration.*"
                      "found \"" +
                      trace + "\""));
}

TEST_F(RunPlannerTest, WithoutAPlanFileNothingIsOpened) {
  EXPECT_TRUE(planner_.open_given_plan().ok());
}

TEST_F(RunPlannerTest, ASearchImprovesAPlanAndItsPredictionOnlyWhenThePlanTakesOver) {
  give(plan_of_both());
  const iteration::Schedule schedule(profile_, made_plan());
  const int64_t before_ns = planner_.prediction(kName)->step_ns;
  const Result<learn::FoundPlan> found = planner_.improve_plan(schedule, machine(149), 0, stop_);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->step_before_ns, before_ns);
  EXPECT_LT(found->step_ns, before_ns);
  EXPECT_EQ(planner_.prediction(kName)->step_ns, before_ns);
  found->note_takeover();
  EXPECT_EQ(planner_.prediction(kName)->step_ns, found->step_ns);
}

TEST_F(RunPlannerTest, APlanThatIsNotLegalAnyMoreIsNotImproved) {
  const iteration::Schedule schedule(profile_, plan::Plan{kName, {testing::offload(0, 1, 2)}});
  EXPECT_FALSE(planner_.improve_plan(schedule, machine(149), 0, stop_).ok());
}

TEST_F(RunPlannerTest, PlansAreSearchedForWhereACoreIsSpare) {
  using Effort = RunOptions::Effort;
  EXPECT_TRUE(searches_for_plans(options_, 4));
  EXPECT_FALSE(searches_for_plans(options_, 3));
  options_.rank_directories.resize(2);
  EXPECT_FALSE(searches_for_plans(options_, 7)) << "each rank has three";
  EXPECT_TRUE(searches_for_plans(options_, 8));
  options_.plans_in_background = false;
  EXPECT_FALSE(searches_for_plans(options_, 8));
  options_.effort = Effort::kBest;
  EXPECT_TRUE(searches_for_plans(options_, 1));
  options_.effort = Effort::kFast;
  EXPECT_FALSE(searches_for_plans(options_, 8));
}

TEST_F(RunPlannerTest, TheNextRunBeginsWithThePlanThatASearchHasFound) {
  give(plan_of_both());
  options_.effort = RunOptions::Effort::kBest;
  options_.cache_directory = scratch_.path();
  const iteration::Schedule schedule(profile_, made_plan());
  const Result<learn::FoundPlan> found = planner_.improve_plan(schedule, machine(149), 0, stop_);
  ASSERT_TRUE(found.ok()) << found.status().message();
  options_.plan_path.reset();
  RunPlanner next(options_);
  const Result<plan::Plan> plan = next.make_plan(profile_, machine(149), 0);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(*plan, found->plan);
  EXPECT_TRUE(next.prediction(kName)->is_kept);
  EXPECT_FALSE(next.improve_plan({profile_, *plan}, machine(149), 0, stop_).ok())
      << "the search is not repeated";
}

TEST_F(RunPlannerTest, AKeptPlanThatIsSlowerThanTheOneThatIsMadeIsNotUsed) {
  options_.effort = RunOptions::Effort::kBest;
  options_.cache_directory = scratch_.path();
  const plan::Plan plan = made_plan();
  EXPECT_FALSE(planner_.prediction(kName)->is_kept);
  const plan::Limits limits = planner_.prediction(kName)->limits;
  KeptPlans(scratch_.path())
      .keep(plan_of_both(), {profile_.trace, machine(149), limits, options_.recompute});
  EXPECT_EQ(made_plan(), plan);
  EXPECT_FALSE(planner_.prediction(kName)->is_kept);
  EXPECT_TRUE(planner_.improve_plan({profile_, plan}, machine(149), 0, stop_).ok());
}

TEST_F(RunPlannerTest, ASearchThatIsStoppedKeepsNothing) {
  options_.effort = RunOptions::Effort::kBest;
  options_.cache_directory = scratch_.path();
  const std::atomic<bool> stop = true;
  (void)planner_.improve_plan({profile_, made_plan()}, machine(149), 0, stop);
  EXPECT_TRUE(scratch_.is_empty());
}

TEST_F(RunPlannerTest, PlansAreKeptWhereTheyMayBeSearchedFor) {
  using Effort = RunOptions::Effort;
  EXPECT_FALSE(keeps_plans(options_)) << "there is no cache";
  options_.cache_directory = scratch_.path();
  EXPECT_TRUE(keeps_plans(options_)) << "on any number of cores";
  options_.plans_in_background = false;
  EXPECT_FALSE(keeps_plans(options_)) << "runs repeat exactly";
  options_.effort = Effort::kBest;
  EXPECT_TRUE(keeps_plans(options_));
  options_.effort = Effort::kFast;
  options_.plans_in_background = true;
  EXPECT_FALSE(keeps_plans(options_));
}

TEST_F(RunPlannerTest, AGivenPlanIsImprovedWhereThatIsAskedFor) {
  give(plan_of_both());
  EXPECT_FALSE(searches_for_plans(options_, 8));
  options_.effort = RunOptions::Effort::kBest;
  EXPECT_TRUE(searches_for_plans(options_, 8));
}

}  // namespace
}  // namespace teraio::runtime
