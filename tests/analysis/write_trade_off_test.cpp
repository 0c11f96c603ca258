#include "analysis/write_trade_off.h"

#include <gtest/gtest.h>

#include "planner/planned_case.h"
#include "simulate/scenario.h"
#include "testing/generated_trace.h"

namespace teraio::analysis {
namespace {

using namespace testing;

void expect_curve(const std::vector<WriteTradeOff>& curve) {
  ASSERT_FALSE(curve.empty());
  for (size_t i = 0; i < curve.size(); ++i) {
    EXPECT_LE(curve[i].ssd_bytes_written, curve[i].write_budget_bytes);
    if (i == 0) continue;
    EXPECT_GE(curve[i].write_budget_bytes, curve[i - 1].write_budget_bytes);
    EXPECT_LE(curve[i].step_ns, curve[i - 1].step_ns);
  }
}

TEST(WriteTradeOff, AllFitsNothingToTrade) {
  TraceBuilder builder;
  builder.op(10, {.reads = {builder.persistent(1000)}});
  const auto curve = write_trade_off(builder.trace(), {round_machine(1000), {}}, {});
  ASSERT_TRUE(curve.ok()) << curve.status().message();
  EXPECT_EQ(*curve, (std::vector<WriteTradeOff>{{0, 0, 10}}));
}

TEST(WriteTradeOff, OfAVisionTransformer) {
  PlannedCase given = case_of("VIT-1280", "a100_g10");
  given.limits.host_limit_bytes = 0;
  const auto curve = write_trade_off(given.trace, {given.hardware, given.limits},
                                     {.recompute = planner::Recompute::kOff}, 4);
  ASSERT_TRUE(curve.ok()) << curve.status().message();
  EXPECT_GE(curve->size(), 3);
  expect_curve(*curve);
}

TEST(WriteBudgets, NoneWhereNothingIsWritten) {
  const auto budgets = write_budgets(two_weights_in_turn(), {round_machine(1000), {}}, {}, 4);
  ASSERT_TRUE(budgets.ok()) << budgets.status().message();
  EXPECT_TRUE(budgets->empty());
}

TEST(WriteBudgets, OneWhereTheMinimumIsWhatIsWritten) {
  TraceBuilder builder;
  const trace::TensorIndex activation = builder.transient(1000);
  builder.op(100, {.writes = {activation}});
  builder.op(100, {.workspace_bytes = 1000});
  builder.op(100, {.reads = {activation}});
  const auto budgets = write_budgets(builder.trace(), {round_machine(1000), {}}, {}, 4);
  ASSERT_TRUE(budgets.ok()) << budgets.status().message();
  EXPECT_EQ(*budgets, std::vector<int64_t>{1000});
}

class WriteTradeOffs : public ::testing::TestWithParam<uint64_t> {};

TEST_P(WriteTradeOffs, AreWithinBudgetsAndMonotone) {
  const trace::Trace trace = generated_trace(GetParam());
  const hardware::Hardware hardware =
      generated_hardware(GetParam(), planner::min_device_budget_bytes(trace, {}),
                         3 * planner::min_device_budget_bytes(trace, {}));
  const auto curve = write_trade_off(trace, {hardware, {}}, {});
  ASSERT_TRUE(curve.ok()) << curve.status().message();
  expect_curve(*curve);
}

INSTANTIATE_TEST_SUITE_P(Seeds, WriteTradeOffs, ::testing::Range<uint64_t>(0, 20));

}  // namespace
}  // namespace teraio::analysis
