#include "learn/iteration_detector.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "engine/live_tensor.h"

namespace teraio::learn {
namespace {

class IterationDetectorTest : public ::testing::Test {
 protected:
  // A step of these ops. True when the iteration ends with it.
  bool step(const std::vector<uint64_t>& signatures) {
    for (const uint64_t signature : signatures) detector_.add_op(signature, /*uses_tensors=*/true);
    return detector_.end_step();
  }
  // Steps of these optimizers, all with the same op. How many steps each of the iterations has that
  // end.
  std::vector<int> steps_of(const std::vector<uint64_t>& optimizers, uint64_t op = 1) {
    std::vector<int> counts;
    for (const uint64_t optimizer : optimizers) {
      detector_.add_op(op, /*uses_tensors=*/true);
      ++steps_so_far_;
      if (!detector_.end_step(optimizer)) continue;
      counts.push_back(std::exchange(steps_so_far_, 0));
      detector_.start_iteration(/*is_complete=*/true);
    }
    return counts;
  }
  // An iteration of one step. True when it repeats the one before.
  bool is_repeated(const std::vector<uint64_t>& signatures) {
    EXPECT_TRUE(step(signatures));
    const bool is_repeated = detector_.is_repeated();
    detector_.start_iteration(/*is_complete=*/true);
    return is_repeated;
  }
  bool use(engine::LiveTensor& tensor, bool is_write = false) {
    const engine::Use use = {&tensor, is_write};
    return detector_.begins_new_update(std::span(&use, 1));
  }

  IterationDetector detector_;
  int steps_so_far_ = 0;
};

TEST_F(IterationDetectorTest, EqualOpsInEqualOrderRepeat) {
  EXPECT_FALSE(is_repeated({1, 2, 3})) << "there is none before";
  EXPECT_TRUE(is_repeated({1, 2, 3}));
  EXPECT_FALSE(is_repeated({1, 3, 2})) << "order matters";
  EXPECT_FALSE(is_repeated({1, 3}));
  EXPECT_FALSE(is_repeated({1, 3, 0}));
}

TEST_F(IterationDetectorTest, AStepWithoutOpsIsNone) { EXPECT_FALSE(step({})); }

TEST_F(IterationDetectorTest, OpsWithoutTensorsBelongToTheNextStep) {
  const auto is_step_repeated = [&] {
    const bool is_same = is_repeated({1, 2});
    detector_.add_op(9, /*uses_tensors=*/false);
    EXPECT_FALSE(detector_.end_step());
    return is_same;
  };
  EXPECT_FALSE(is_step_repeated());
  EXPECT_FALSE(is_step_repeated()) << "the first has no such op before it";
  EXPECT_TRUE(is_step_repeated());
}

TEST_F(IterationDetectorTest, AnIterationThatWasCutOffRepeatsNothing) {
  EXPECT_FALSE(is_repeated({1, 2}));
  detector_.add_op(7, /*uses_tensors=*/true);
  detector_.start_iteration(/*is_complete=*/false);
  EXPECT_EQ(detector_.op_count(), 0);
  EXPECT_TRUE(is_repeated({1, 2})) << "compared with the last one that was complete";
}

TEST_F(IterationDetectorTest, StepsThatTakeTurnsMakeOneIteration) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(is_repeated({1, 2}));
    EXPECT_FALSE(is_repeated({3}));
  }
  detector_.find_period();
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(step({1, 2})) << "half of the iteration";
    EXPECT_TRUE(step({3}));
    EXPECT_EQ(detector_.is_repeated(), i == 1);
    detector_.start_iteration(/*is_complete=*/true);
  }
}

// All of their steps may be equal.
TEST_F(IterationDetectorTest, AnIterationHasAStepOfEachOptimizer) {
  EXPECT_EQ(steps_of({1, 2, 3, 4}), (std::vector{1}));
  EXPECT_EQ(steps_of({1, 2, 3, 4, 1, 2, 3, 4}), (std::vector{7, 4})) << "and ends with the last";
  detector_.find_period();
  EXPECT_EQ(steps_of({1, 2, 3, 4}), (std::vector{4})) << "fewer steps are equal, too";
}

TEST_F(IterationDetectorTest, WhereOptimizersTellThePeriodLongerRowsAreACoincidence) {
  for (const uint64_t op : {5, 6, 5, 6, 5, 6}) steps_of({1, 2}, op);
  detector_.find_period();
  EXPECT_EQ(steps_of({1, 2, 1, 2}), (std::vector{2, 2}));
}

TEST_F(IterationDetectorTest, OneOptimizerMayStepMoreOftenThanAnother) {
  const std::vector<uint64_t> iteration = {1, 1, 1, 2};
  steps_of(iteration);
  steps_of(iteration);
  EXPECT_TRUE(detector_.take_parts().empty());
  steps_of(iteration);
  EXPECT_EQ(detector_.take_parts(), (std::vector<int64_t>{0, 4, 4, 4}));
  EXPECT_TRUE(detector_.take_parts().empty()) << "they are told once";
  EXPECT_EQ(steps_of(iteration), (std::vector{4}));
}

TEST_F(IterationDetectorTest, TheRarestOptimizerEndsAnIterationAlsoAfterADrawnNumberOfSteps) {
  steps_of({1, 1, 2, 1, 1, 2, 1, 1, 2});
  EXPECT_EQ(steps_of({1, 2, 1, 1, 1, 2, 1, 1, 2}), (std::vector{2, 4, 3}));
}

TEST_F(IterationDetectorTest, ADrawnNumberOfEqualStepsIsNoPeriod) {
  EXPECT_EQ(steps_of({1, 2, 1, 2, 1, 1, 1, 1, 2}), (std::vector{1, 3, 5}));
  detector_.find_period();
  EXPECT_EQ(steps_of({1, 1, 2}), (std::vector{3}));
}

TEST_F(IterationDetectorTest, EqualRowsOfStepsHaveTheirPartsWithoutADistanceTwice) {
  for (const auto& [optimizer, op] : {std::pair(1, 5), {1, 5}, {2, 6}, {1, 5}, {1, 5}, {2, 6}})
    steps_of({static_cast<uint64_t>(optimizer)}, static_cast<uint64_t>(op));
  detector_.find_period();
  EXPECT_EQ(detector_.take_parts(), (std::vector<int64_t>{0, 3, 3}));
}

TEST_F(IterationDetectorTest, AnOptimizerThatStepsNowAndThenChangesNothing) {
  std::vector<uint64_t> steps(20, 1);
  steps.push_back(2);
  for (int i = 0; i < 4; ++i)
    for (const int count : steps_of(steps)) EXPECT_EQ(count, 1);
}

TEST_F(IterationDetectorTest, ThePeriodEndsWithTheOtherOptimizers) {
  steps_of({1, 2, 3, 1, 2, 3});
  EXPECT_EQ(steps_of(std::vector<uint64_t>(8, 1)), (std::vector{8}));
  detector_.find_period();
  EXPECT_EQ(steps_of({1, 1}), (std::vector{1, 1}));
}

TEST_F(IterationDetectorTest, AParameterThatChangesAgainAfterAUseBeginsAnotherUpdate) {
  engine::LiveTensor weight;
  weight.update.is_parameter = true;
  EXPECT_FALSE(use(weight));
  EXPECT_FALSE(use(weight, true));
  EXPECT_FALSE(use(weight, true)) << "nothing has used the first change";
  EXPECT_FALSE(use(weight));
  EXPECT_TRUE(use(weight, true));
}

TEST_F(IterationDetectorTest, OtherTensorsDivideNothing) {
  engine::LiveTensor statistics;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(use(statistics));
    EXPECT_FALSE(use(statistics, true));
  }
}

TEST_F(IterationDetectorTest, WhereRowsAreEqualByChanceTheRarerOptimizerEndsThem) {
  steps_of({1, 1, 2, 1, 1, 1, 2, 1, 2, 1, 2});
  EXPECT_EQ(detector_.take_parts(), (std::vector<int64_t>{0, 1, 2, 4, 3}));
}

TEST_F(IterationDetectorTest, WhatEndedBeforeStepsWereReportedIsNoPart) {
  steps_of({0, 0});
  detector_.expect_steps();
  steps_of({1, 1, 2, 1, 1, 2, 1, 1, 2});
  EXPECT_EQ(detector_.take_parts(), (std::vector<int64_t>{0, 3, 3, 3}));
}

TEST_F(IterationDetectorTest, WhereStepsAreReportedUpdatesDivideNothing) {
  EXPECT_TRUE(detector_.expect_steps());
  EXPECT_FALSE(detector_.expect_steps());
  engine::LiveTensor weight;
  weight.update.is_parameter = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(use(weight));
    EXPECT_FALSE(use(weight, true));
  }
}

}  // namespace
}  // namespace teraio::learn
