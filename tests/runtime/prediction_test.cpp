#include "runtime/prediction.h"

#include <gtest/gtest.h>

#include "plan/scenario.h"
#include "planner/planner.h"

namespace teraio::runtime {
namespace {

using testing::machine;

class PredictionTest : public ::testing::Test {
 protected:
  PredictionTest() { profile_.trace = testing::weight_and_activation(); }

  Prediction predicted(int64_t budget_bytes, const plan::Plan& plan) const {
    plan::Limits limits;
    limits.device_budget_bytes = budget_bytes;
    return predict(profile_, machine(150), limits, plan);
  }

  iteration::Profile profile_;
};

TEST_F(PredictionTest, TheIdealHasNoLimitOfMemory) {
  const Prediction prediction = predicted(150, plan::Plan());
  EXPECT_EQ(prediction.ideal_ns, 600);
  EXPECT_EQ(prediction.step_ns, 600);
}

TEST_F(PredictionTest, TheStepIsThatOfThePlan) {
  for (trace::Op& op : profile_.trace.ops) op.duration_ns = 10;  // the weight takes 120 to move
  const Result<plan::Plan> plan = planner::plan(profile_.trace, machine(149), {});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const Prediction prediction = predicted(149, *plan);
  EXPECT_EQ(prediction.ideal_ns, 60);
  EXPECT_GT(prediction.step_ns, 60);
  EXPECT_EQ(prediction.limits.device_budget_bytes, 149);
  EXPECT_EQ(prediction.hardware, machine(150));
}

TEST_F(PredictionTest, APlanThatCannotBeExecutedHasNoStepTime) {
  const Prediction prediction = predicted(149, plan::Plan());  // nothing leaves
  EXPECT_EQ(prediction.ideal_ns, 600);
  EXPECT_EQ(prediction.step_ns, 0);
}

TEST_F(PredictionTest, TheNewestPredictionsCount) {
  Predictions predictions;
  for (size_t i = 0; i < Predictions::kCountMax; ++i) predictions.keep(std::to_string(i), {});
  predictions.keep("0", {.step_ns = 3});  // again: now the newest
  predictions.keep("one more", {});
  EXPECT_EQ(predictions.find("0")->step_ns, 3);
  EXPECT_FALSE(predictions.find("1").has_value());
  EXPECT_TRUE(predictions.find("2").has_value());
}

}  // namespace
}  // namespace teraio::runtime
