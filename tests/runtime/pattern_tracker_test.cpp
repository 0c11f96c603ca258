// Programs whose steps differ, on a Runtime: which plans hold, and every byte is checked.
#include "learn/pattern_tracker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <functional>
#include <future>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "planner/planner.h"
#include "runtime/fixture/runtime_session.h"

namespace teraio::runtime {
namespace {

using testing::kUnitBytes;
using testing::RuntimeSession;
using testing::RuntimeSessionOptions;
using testing::Tensors;
using Mode = engine::IterationRecord::Mode;

// Layers with a weight of a unit each; a step of a length makes activations of so many units.
class VaryingProgram : public ::testing::Test {
 protected:
  static constexpr int kLayers = 6;
  static constexpr int64_t kScarceUnits = 10;  // fewer than a step of length 1 needs

  void open(int64_t budget_units, RuntimeSessionOptions options = {}) {
    constexpr int64_t kRate = 1'000'000'000;
    hardware_.device_memory_bytes = budget_units * kUnitBytes;
    hardware_.device_link = {kRate, kRate};
    hardware_.drives = {{"d0", 1000 * kUnitBytes, {kRate, kRate}, 2.0, {}}};
    options.budget_units = budget_units;
    if (!options.make_plan)
      options.make_plan = [this](const iteration::Profile& profile) {
        planned_.push_back(profile);
        return planner::plan(profile.trace, hardware_, {}, {.recompute = planner::Recompute::kOff});
      };
    session_.emplace(options);
    for (int i = 0; i < kLayers; ++i) weights_.push_back(session_->born());
  }

  // Forward and backward ops. `kind` makes passes that differ from each other.
  void pass(uint64_t kind, int64_t length) {
    Tensors activations;
    for (size_t i = 0; i < weights_.size(); ++i)
      activations.push_back(op(kind, i, {weights_[i]}, {}, length));
    for (size_t i = weights_.size(); i-- > 0;) {
      op(kind + 1, i, {weights_[i], activations.back()}, {}, 0, length);
      session_->die(activations.back());
      activations.pop_back();
    }
  }
  void evaluate(int64_t length) {
    for (size_t i = 0; i < weights_.size(); ++i) {
      engine::LiveTensor* result = op(100, i, {weights_[i]}, {}, length);
      session_->die(result);
    }
  }
  void update() {
    for (size_t i = 0; i < weights_.size(); ++i) op(50, i, {}, {weights_[i]}, 0);
    runtime().end_step();
  }
  void step(int64_t length = 1) {
    pass(10, length);
    update();
  }

  engine::LiveTensor* op(uint64_t kind, size_t layer, const Tensors& reads, const Tensors& writes,
                         int64_t result_units, int64_t input_units = 0) {
    const auto sizes = static_cast<uint64_t>(1000 * result_units + input_units);
    return session_->op({1000 * kind + layer, sizes}, reads, writes, result_units);
  }

  Runtime& runtime() { return session_->runtime(); }
  engine::IterationRecord last() { return runtime().iterations().back(); }
  double planned_share() {
    return static_cast<double>(last().planned_op_count) / static_cast<double>(last().op_count);
  }

  hardware::Hardware hardware_;
  std::vector<iteration::Profile> planned_;
  std::optional<RuntimeSession> session_;
  Tensors weights_;
};

TEST_F(VaryingProgram, LengthsThatNeverRepeatArePlannedAfterTwoSteps) {
  open(24);
  step(1);
  step(2);
  EXPECT_EQ(planned_.size(), 1u);
  for (const int64_t length : {3, 2, 1, 3, 2}) {
    step(length);
    EXPECT_EQ(last().mode, Mode::kPlanned) << length;
    EXPECT_EQ(planned_share(), 1.0);
  }
  EXPECT_EQ(runtime().knowledge().patterns.size(), 1u);
  EXPECT_EQ(runtime().figures().deviation_count, 0);
}

// Of another stream, or of the framework's cache, what is freed later counts as needed.
TEST_F(VaryingProgram, APlanThatCouldNotBeMadeIsTriedAgain) {
  RuntimeSessionOptions options;
  int failures_left = 2;
  options.make_plan = [&](const iteration::Profile& profile) -> Result<plan::Plan> {
    if (failures_left-- > 0) return Status(ErrorCode::kOutOfMemory, "too little at this moment");
    return planner::plan(profile.trace, hardware_, {}, {.recompute = planner::Recompute::kOff});
  };
  open(14, std::move(options));
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(last().mode, Mode::kOnDemand) << "the third try is after the tenth step";
  step();
  EXPECT_EQ(last().mode, Mode::kPlanned);
  EXPECT_EQ(planned_share(), 1.0);
}

// As the second step of DDP makes buckets for the gradients, which later steps have from the step
// before.
TEST_F(VaryingProgram, AStepThatMakesABufferForLaterOnesIsNearlyTheSame) {
  open(14);
  engine::LiveTensor* buffer = nullptr;
  const auto step_with_buffer = [&] {
    if (buffer == nullptr) buffer = op(70, 0, {}, {}, 1);
    for (int i = 0; i < 10; ++i) pass(10, 1);
    for (size_t i = 0; i < weights_.size(); ++i) op(60, i, {weights_[i]}, {buffer}, 0);
    update();
  };
  step();
  step_with_buffer();
  EXPECT_EQ(planned_.size(), 0u);
  step_with_buffer();
  EXPECT_EQ(planned_.size(), 1u);
  step_with_buffer();
  EXPECT_EQ(last().mode, Mode::kPlanned);
  EXPECT_EQ(planned_share(), 1.0);
}

TEST_F(VaryingProgram, NoLengthExceedsTheBudget) {
  open(14);
  for (int i = 0; i < 40; ++i) step(1 + (i * 7) % 5);
  EXPECT_EQ(last().mode, Mode::kPlanned);
  for (const engine::IterationRecord& record : runtime().iterations())
    EXPECT_LE(record.device_peak_bytes, 14 * kUnitBytes);
}

TEST_F(VaryingProgram, ALengthThatComesBackHasAPlanOfItsOwn) {
  open(20);
  for (const int64_t length : {1, 2, 3, 1, 2, 3}) step(length);
  const size_t plan_count = planned_.size();
  EXPECT_GE(plan_count, 3u);
  const int64_t urgent_reads = runtime().figures().counters.urgent_reads;
  for (int i = 0; i < 2; ++i)
    for (const int64_t length : {3, 1, 2}) step(length);
  EXPECT_LE(runtime().figures().counters.urgent_reads - urgent_reads, 12);
}

TEST_F(VaryingProgram, AnEvaluationIsPlannedWhenItComesBack) {
  open(14);
  for (int i = 0; i < 5; ++i) step();
  for (int i = 0; i < 4; ++i) {
    evaluate(2);
    step();
    step();
  }
  evaluate(2);
  step();
  EXPECT_EQ(last().mode, Mode::kPlanned);
  EXPECT_EQ(planned_share(), 1.0);
  EXPECT_EQ(runtime().knowledge().patterns.size(), 2u);
}

TEST_F(VaryingProgram, ANumberOfPassesThatVariesFollowsTheOnesSeen) {
  open(14);
  const auto step_of = [&](int passes) {
    for (int i = 0; i < passes; ++i) pass(10, 1);
    update();
  };
  for (const int passes : {2, 2, 1, 3, 1, 2, 3, 1, 2, 3}) step_of(passes);
  for (const int passes : {3, 1, 2, 2, 3, 1}) {
    step_of(passes);
    EXPECT_EQ(last().mode, Mode::kPlanned) << passes;
  }
  step_of(4);
  EXPECT_GT(planned_share(), 0.9) << "a pass more is found in the others";
}

TEST_F(VaryingProgram, SizesOfTheirOwnInEachPassAreIrregular) {
  open(30);
  const int64_t lengths[][2] = {{1, 4}, {4, 1}, {2, 4}, {4, 2}, {1, 1}, {4, 4}, {3, 2}, {2, 3}};
  for (int round = 0; round < 2; ++round)
    for (const auto& [first, second] : lengths) {
      pass(10, first);
      pass(10, second);
      update();
    }
  EXPECT_EQ(planned_share(), 1.0);
  EXPECT_TRUE(runtime().knowledge().patterns.back().is_irregular);
}

TEST_F(VaryingProgram, ThePlanOfAStepUnderWayHoldsAsSoonAsItIsMade) {
  std::promise<void> may_plan;
  RuntimeSessionOptions options;
  options.plans_in_background = true;
  options.make_plan = [&](const iteration::Profile& profile) {
    may_plan.get_future().wait();
    return planner::plan(profile.trace, hardware_, {}, {.recompute = planner::Recompute::kOff});
  };
  open(14, std::move(options));
  step();
  step();
  step();
  EXPECT_EQ(last().planned_op_count, 0) << "no step waits for the plan";
  may_plan.set_value();
  while (runtime().figures().planning.work.plans_made == 0) std::this_thread::yield();
  pass(10, 1);
  EXPECT_TRUE(runtime().figures().is_following_plan);
  update();
  EXPECT_EQ(planned_share(), 1.0);
}

TEST_F(VaryingProgram, AMachineThatChangesWhileAPlanIsMadeAgainHasItMadeOnceMore) {
  std::promise<void> may_plan_again;
  std::optional<std::string> change;
  std::atomic<int> request_count = 0;
  RuntimeSessionOptions options;
  options.plans_in_background = true;
  options.machine_change = [&] { return std::exchange(change, std::nullopt); };
  options.make_plan = [&](const iteration::Profile& profile) {
    if (++request_count == 2) may_plan_again.get_future().wait();
    return planner::plan(profile.trace, hardware_, {}, {.recompute = planner::Recompute::kOff});
  };
  open(14, std::move(options));
  const auto wait_for_plans = [&] {
    while (runtime().figures().planning.work.is_planning) std::this_thread::yield();
  };
  step();
  step();
  wait_for_plans();
  while (request_count < 2) step();
  change = "a drive is slower";
  step();
  may_plan_again.set_value();
  wait_for_plans();
  for (int i = 0; i < 3; ++i) step();
  wait_for_plans();
  EXPECT_EQ(request_count, 3);
}

// Each plan takes as much time as thousands of these steps.
TEST_F(VaryingProgram, PlansForOtherSizesTakeASmallShareOfTheTime) {
  constexpr clock_t kPlanningTicks = CLOCKS_PER_SEC / 4;
  RuntimeSessionOptions options;
  options.plans_in_background = true;
  options.make_plan = [&](const iteration::Profile& profile) {
    const clock_t start = clock();  // CPU time
    while (clock() - start < kPlanningTicks) {
    }
    return planner::plan(profile.trace, hardware_, {}, {.recompute = planner::Recompute::kOff});
  };
  open(24, std::move(options));
  for (const int64_t length : {1, 2, 3, 4}) {
    step(length);
    while (runtime().figures().planning.work.is_planning) std::this_thread::yield();
  }
  EXPECT_EQ(runtime().figures().planning.work.plans_made, 1);
  EXPECT_EQ(last().mode, Mode::kPlanned);
  EXPECT_EQ(planned_share(), 1.0);
}

// A search finds the same plan again, said to be so much faster.
class SearchedProgram : public VaryingProgram {
 protected:
  void open_searched(bool in_background = false) {
    RuntimeSessionOptions options;
    options.plans_in_background = in_background;
    options.improve_plan = [this](const iteration::Schedule& schedule, const auto& stop) {
      ++search_count_;
      while (!may_end_ && !stop) std::this_thread::yield();
      was_stopped_ = stop.load();
      return Result(learn::FoundPlan{*schedule.plan(), found_ns_, 1000, [this] { ++takeovers_; }});
    };
    open(kScarceUnits, std::move(options));
  }
  learn::PlanFacts plan() { return *runtime().figures().plan; }
  void wait_for_search() {
    while (runtime().figures().planning.work.is_searching) std::this_thread::yield();
  }

  int64_t found_ns_ = 900;
  std::atomic<bool> may_end_ = true;
  std::atomic<bool> was_stopped_ = false;
  std::atomic<int> search_count_ = 0;
  int takeovers_ = 0;
};

TEST_F(SearchedProgram, ABetterPlanTakesOverOnce) {
  open_searched();
  for (int i = 0; i < 4; ++i) step();
  EXPECT_EQ(search_count_, 0) << "the plan is made again first";
  EXPECT_FALSE(plan().is_found);
  EXPECT_EQ(plan().from_step, 5);
  EXPECT_EQ(plan().first_timed_step, 3) << "the steps under the plan before";
  EXPECT_EQ(plan().last_timed_step, 4);
  step();
  EXPECT_TRUE(plan().is_found);
  EXPECT_EQ(plan().from_step, 6);
  EXPECT_DOUBLE_EQ(plan().gain, 0.1);
  EXPECT_EQ(plan().first_timed_step, 3) << "it was searched for with the same times";
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(search_count_, 1);
  EXPECT_EQ(takeovers_, 1);
  EXPECT_EQ(planned_share(), 1.0);
}

TEST_F(SearchedProgram, APlanTakesOverBetweenTwoSteps) {
  may_end_ = false;
  open_searched(/*in_background=*/true);
  while (search_count_ == 0) step();
  pass(10, 1);
  may_end_ = true;
  wait_for_search();
  op(50, 0, {}, {weights_[0]}, 0);
  EXPECT_FALSE(plan().is_found);
  for (size_t i = 1; i < weights_.size(); ++i) op(50, i, {}, {weights_[i]}, 0);
  runtime().end_step();
  EXPECT_TRUE(plan().is_found);
}

TEST_F(SearchedProgram, NothingTakesOverAfterThePatternWasLeft) {
  may_end_ = false;
  open_searched(/*in_background=*/true);
  while (search_count_ == 0) step();
  while (runtime().figures().planning.work.is_searching) {
    pass(20, 1);
    update();
  }
  found_ns_ = 1000;  // by a search for this pattern
  may_end_ = true;
  for (int i = 0; i < 3; ++i) {
    pass(20, 1);
    update();
  }
  EXPECT_EQ(takeovers_, 0);
}

TEST_F(SearchedProgram, TheEndOfTheRunStopsASearch) {
  may_end_ = false;
  open_searched(/*in_background=*/true);
  while (search_count_ == 0) step();
  ASSERT_TRUE(runtime().stop().ok());
  EXPECT_TRUE(was_stopped_);
  EXPECT_EQ(takeovers_, 0);
}

TEST_F(VaryingProgram, StepsFarFromTheirPredictionHaveThePlanMadeAgain) {
  int64_t predicted_ns = 1;
  RuntimeSessionOptions options;
  options.predicted_step_ns = [&](const std::string&) { return predicted_ns; };
  int wrong_count = 0;
  options.note_wrong_prediction = [&] { ++wrong_count; };
  open(kScarceUnits, std::move(options));
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(planned_.size(), 2u) << "the first step on a plan does not count";
  step();
  EXPECT_EQ(planned_.size(), 2u) << "one step decides nothing";
  step();
  EXPECT_EQ(planned_.size(), 3u);
  EXPECT_EQ(wrong_count, 2) << "the second plan had been asked for after a far step";
  EXPECT_EQ(runtime().figures().plan->first_timed_step, 7) << "the times of the second one";
  for (int i = 0; i < 2; ++i) step();
  EXPECT_EQ(planned_.size(), 4u) << "as after the first plan";
  EXPECT_EQ(runtime().figures().plan->first_timed_step, 7);
  EXPECT_EQ(runtime().figures().plan->last_timed_step, 9);
  step();
  predicted_ns = last().duration_ns;
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(planned_.size(), 4u);
}

TEST_F(VaryingProgram, APredictionThatNeverHoldsHasThePlanMadeAgainLessAndLess) {
  RuntimeSessionOptions options;
  options.predicted_step_ns = [](const std::string&) { return 1; };
  open(kScarceUnits, std::move(options));
  for (int i = 0; i < 200; ++i) step();
  EXPECT_LE(planned_.size(), 16u);
}

TEST_F(VaryingProgram, DifferencesTellTheFirstOpThatIsAnotherOne) {
  open(14);
  for (int i = 0; i < 5; ++i) step();
  for (int i = 0; i < 2; ++i) {
    op(77, 0, {weights_[2]}, {}, 0);
    op(78, 0, {weights_[2]}, {}, 0);
    step();
  }
  const std::vector<learn::Difference> differences = runtime().knowledge().differences;
  ASSERT_EQ(differences.size(), 1u) << "what follows from the first one does not count";
  EXPECT_EQ(differences[0].kind, learn::Difference::Kind::kOps);
  EXPECT_EQ(differences[0].iteration_count, 2);
  EXPECT_EQ(differences[0].position, 0);
  EXPECT_EQ(differences[0].pattern, runtime().knowledge().patterns.front().id);
  EXPECT_EQ(differences[0].expected_op, "op");
}

TEST_F(VaryingProgram, DifferencesTellTheExtremesOfSizes) {
  open(30);
  for (const int64_t length : {2, 2, 2, 2, 1, 3, 2}) step(length);
  const std::vector<learn::Difference> differences = runtime().knowledge().differences;
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0].kind, learn::Difference::Kind::kSizes);
  EXPECT_EQ(differences[0].iteration_count, 2);
  EXPECT_EQ(2 * differences[0].smallest_bytes, differences[0].expected_bytes);
  EXPECT_EQ(2 * differences[0].largest_bytes, 3 * differences[0].expected_bytes);
}

TEST_F(VaryingProgram, DifferencesTellAnEarlyEnd) {
  open(14);
  for (int i = 0; i < 5; ++i) step();
  pass(10, 1);
  runtime().end_step();
  const std::vector<learn::Difference> differences = runtime().knowledge().differences;
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0].kind, learn::Difference::Kind::kEnd);
  EXPECT_EQ(differences[0].position, 2 * kLayers);
}

TEST_F(VaryingProgram, TheProgramIsAskedForItsPlaceOnce) {
  open(14);
  for (int i = 0; i < 5; ++i) step();
  int asked_count = 0;
  for (int i = 0; i < 3; ++i) {
    engine::OpFrame frame = RuntimeSession::frame({weights_[2]});
    const Result<engine::OpRequests> requests = runtime().begin_op(frame, {123, 0});
    ASSERT_TRUE(requests.ok());
    asked_count += requests->is_place_wanted;
    runtime().end_op(frame, "aten::mm", {123, 0},
                     {.place = requests->is_place_wanted ? "train.py:3 in step" : ""});
    step();
  }
  EXPECT_EQ(asked_count, 1);
  EXPECT_EQ(runtime().knowledge().differences.front().op, "aten::mm");
  EXPECT_EQ(runtime().knowledge().differences.front().location, "train.py:3 in step");
}

TEST_F(VaryingProgram, CountersTellWhichOpsFollowedAPlan) {
  open(14);
  for (int i = 0; i < 6; ++i) step();
  int64_t ops = 0;
  int64_t planned_ops = 0;
  for (const engine::IterationRecord& record : runtime().iterations()) {
    ops += record.op_count;
    planned_ops += record.planned_op_count;
  }
  EXPECT_EQ(runtime().figures().planning.ops, ops);
  EXPECT_EQ(runtime().figures().planning.planned_ops, planned_ops);
  const learn::PatternSummary pattern = runtime().knowledge().patterns.front();
  EXPECT_EQ(pattern.iteration_count, 6);
  EXPECT_EQ(pattern.ops_planned, planned_ops);
  EXPECT_EQ(last().pattern, pattern.id);
}

// Iterations that never repeat as a whole, because their parts come in drawn numbers and orders.
class RepeatingParts : public VaryingProgram {
 protected:
  using Iteration = std::function<void()>;
  static constexpr int kIterations = 40;

  bool toss() { return random_() % 2 == 0; }
  // A pass in which an op more may follow each of those forward, as where a mask is left out.
  void pass_with_masks() {
    Tensors activations;
    for (size_t i = 0; i < weights_.size(); ++i) {
      activations.push_back(op(10, i, {weights_[i]}, {}, 1));
      if (toss()) op(12, 0, {}, {activations.back()}, 0);
    }
    for (size_t i = weights_.size(); i-- > 0;) {
      op(11, i, {weights_[i], activations.back()}, {}, 0, 1);
      session_->die(activations.back());
      activations.pop_back();
    }
  }

  // Of the second half of the iterations.
  struct Half {
    double planned_share = 0;
    int64_t urgent_reads = 0;
  };
  Half run(const Iteration& iteration, RuntimeSessionOptions options = {}) {
    weights_.clear();
    open(kScarceUnits, std::move(options));
    const auto run_half = [&] {
      for (int i = 0; i < kIterations / 2; ++i) {
        iteration();
        largest_library_bytes_ = std::max(largest_library_bytes_, library_bytes());
      }
    };
    run_half();
    const RunFigures before = runtime().figures();
    run_half();
    const RunFigures after = runtime().figures();
    return {static_cast<double>(after.planning.planned_ops - before.planning.planned_ops) /
                static_cast<double>(after.planning.ops - before.planning.ops),
            after.counters.urgent_reads - before.counters.urgent_reads};
  }
  Half run_on_demand(const Iteration& iteration) {
    RuntimeSessionOptions options;
    options.make_plan = [](const iteration::Profile&) {
      return Result<plan::Plan>(Status(ErrorCode::kInvalidArgument, "no plan is wanted"));
    };
    return run(iteration, std::move(options));
  }

  int64_t library_bytes() {
    int64_t total_bytes = 0;
    for (const auto& pattern : runtime().knowledge().patterns) total_bytes += pattern.size_bytes;
    return total_bytes;
  }

  std::minstd_rand random_;
  int64_t largest_library_bytes_ = 0;
};

TEST_F(RepeatingParts, OpsThatAreLeftOutNowAndThenCostThemselves) {
  const auto iteration = [this] {
    for (int i = 0; i < 4; ++i) pass_with_masks();
    update();
  };
  const Half planned = run(iteration);
  EXPECT_GE(planned.planned_share, 0.85);
  EXPECT_LE(planned_.size(), 12u) << "plans that never hold again are made less and less";
  EXPECT_LT(2 * planned.urgent_reads, run_on_demand(iteration).urgent_reads);
}

TEST_F(RepeatingParts, PassesAndEvaluationsInADrawnOrderFollowPlans) {
  const auto iteration = [this] {
    for (int i = 0; i < 8; ++i) toss() ? pass(10, 1) : evaluate(1);
    update();
  };
  const Half planned = run(iteration);
  EXPECT_GE(planned.planned_share, 0.9);
  EXPECT_LE(planned_.size(), 12u);
  EXPECT_LT(2 * planned.urgent_reads, run_on_demand(iteration).urgent_reads);
}

TEST_F(RepeatingParts, PlansStayWhereMemoryForPatternsIsShort) {
  const auto iteration = [this] {
    for (int i = 0; i < 8; ++i) toss() ? pass(10, 1) : evaluate(1);
    update();
  };
  run(iteration);
  const int64_t unlimited_bytes = std::exchange(largest_library_bytes_, 0);
  const int64_t bytes_max = unlimited_bytes / 8;
  EXPECT_GE(run(iteration, {.library_bytes_max = bytes_max}).planned_share, 0.9);
  EXPECT_LE(largest_library_bytes_, bytes_max);
}

TEST_F(RepeatingParts, APeriodIsFoundAlsoAfterTheFirstPlan) {
  const auto iteration = [this, kind = uint64_t{0}]() mutable {
    pass(10 * (1 + kind++ % 6), 1);
    update();
  };
  run(iteration);
  EXPECT_EQ(last().op_count, 6 * 3 * kLayers);
  EXPECT_EQ(planned_share(), 1.0);
}

}  // namespace
}  // namespace teraio::runtime
