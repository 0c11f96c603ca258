// what_if(): steps whose time on each machine is known by hand.
#include "analysis/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulate/scenario.h"

namespace teraio::analysis {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two frozen weights of 1000 bytes that take turns on a device with room for one: each op of 100 ns
// waits for the read of its weight.
Question two_in_turn() {
  TraceBuilder builder;
  const trace::TensorIndex a = builder.persistent(1000);
  const trace::TensorIndex b = builder.persistent(1000);
  builder.op(100, {.reads = {a}});
  builder.op(100, {.reads = {b}});
  return {builder.trace(), {round_machine(1000), {}}, {}, {}, {}};
}

std::vector<Setting> settings_of(Quantity quantity, std::vector<int64_t> values) {
  std::vector<Setting> settings;
  for (int64_t value : values) settings.push_back({{quantity, value}});
  return settings;
}

std::vector<int64_t> steps_of(const std::vector<Outcome>& outcomes) {
  std::vector<int64_t> steps;
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    steps.push_back(outcome.run.step_ns);
  }
  return steps;
}

TEST(WhatIf, EachDriveTakesItsPartOfARead) {
  const auto outcomes = what_if(two_in_turn(), settings_of(Quantity::kDrives, {1, 2, 4}));
  EXPECT_THAT(steps_of(outcomes), ElementsAre(2200, 1200, 700));
}

TEST(WhatIf, FasterDrivesAreAsGoodAsMoreOfThem) {
  const std::vector<int64_t> rates = {kBytesPerNs, 2 * kBytesPerNs, 4 * kBytesPerNs};
  const auto outcomes = what_if(two_in_turn(), settings_of(Quantity::kBandwidth, rates));
  EXPECT_THAT(steps_of(outcomes), ElementsAre(2200, 1200, 700));
}

TEST(WhatIf, WithTwiceTheMemoryNothingMoves) {
  const auto outcomes = what_if(two_in_turn(), settings_of(Quantity::kDeviceMemory, {1000, 2000}));
  EXPECT_THAT(steps_of(outcomes), ElementsAre(2200, 200));
}

TEST(WhatIf, WhatIsNotPossibleStaysInItsPlaceAndSaysWhy) {
  const auto outcomes = what_if(two_in_turn(), settings_of(Quantity::kDeviceMemory, {999, 1000}));
  ASSERT_EQ(outcomes.size(), 2);
  EXPECT_EQ(outcomes[0].status.code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(outcomes[0].status.message(), HasSubstr("op 0 (op0) needs 1000 bytes at once"));
  EXPECT_TRUE(outcomes[1].status.ok());
}

TEST(WhatIf, TellsHowManyAreDone) {
  std::vector<size_t> done;
  what_if(two_in_turn(), settings_of(Quantity::kDrives, {1, 2, 3, 4, 5}),
          [&](size_t count) { done.push_back(count); });
  EXPECT_THAT(done, ElementsAre(1, 2, 3, 4, 5));
}

TEST(WhatIf, OnlyWhatThePriceFileKnowsHasACost) {
  Question question = two_in_turn();
  question.prices = Prices{.name = "p", .server = 1000, .drive = 100};
  question.tokens_per_step = 10;
  const auto outcomes =
      what_if(question, {{{Quantity::kDrives, 3}}, {{Quantity::kBandwidth, kBytesPerNs}}});
  ASSERT_TRUE(outcomes[0].cost);
  EXPECT_DOUBLE_EQ(outcomes[0].cost->price, 1300);
  EXPECT_FALSE(outcomes[1].cost);
}

TEST(WhatIf, HostMemoryThatMayNotBeUsedIsNotPaidFor) {
  Question question = two_in_turn();
  question.equipment.hardware.host.capacity_bytes = int64_t{5} << 30;
  question.prices = Prices{.name = "p", .server = 1000, .host_memory_per_gib = 10};
  EXPECT_DOUBLE_EQ(what_if(question, {{}})[0].cost->price, 1050);
  question.equipment.limits.host_limit_bytes = 0;
  EXPECT_DOUBLE_EQ(what_if(question, {{}})[0].cost->price, 1000);
}

TEST(WriteBudgets, NothingToVaryWhereNothingIsWritten) {
  const auto budgets = write_budgets(two_in_turn(), 4);
  ASSERT_TRUE(budgets.ok()) << budgets.status().message();
  EXPECT_THAT(*budgets, IsEmpty());
}

TEST(WriteBudgets, OneWhereTheLeastIsWhatIsWritten) {
  TraceBuilder builder;
  const trace::TensorIndex activation = builder.transient(1000);
  builder.op(100, {.writes = {activation}});
  builder.op(100, {.workspace_bytes = 1000});
  builder.op(100, {.reads = {activation}});
  const Question question{builder.trace(), {round_machine(1000), {}}, {}, {}, {}};
  const auto budgets = write_budgets(question, 4);
  ASSERT_TRUE(budgets.ok()) << budgets.status().message();
  EXPECT_THAT(*budgets, ElementsAre(1000));
}

Outcome outcome(int64_t step_ns, std::optional<double> price = {},
                std::optional<double> per_token = {}) {
  Outcome outcome;
  outcome.run.step_ns = step_ns;
  if (price) outcome.cost = Cost{*price, {}, per_token};
  return outcome;
}

Outcome impossible() {
  Outcome outcome;
  outcome.status = Status(ErrorCode::kOutOfMemory, "does not fit");
  return outcome;
}

TEST(CheapestNearBest, IsTheFirstWithoutPrices) {
  EXPECT_EQ(cheapest_near_best({outcome(200), outcome(105), outcome(100)}, 0.05), 1);
  EXPECT_EQ(cheapest_near_best({outcome(200), outcome(106), outcome(100)}, 0.05), 2);
}

TEST(CheapestNearBest, IsTheLowestPriceOfThoseNearTheBest) {
  EXPECT_EQ(cheapest_near_best({outcome(200, 1), outcome(104, 9), outcome(100, 8)}, 0.05), 2);
}

TEST(CheapestNearBest, CostPerTokenCountsMoreThanThePrice) {
  EXPECT_EQ(cheapest_near_best({outcome(104, 8, 0.3), outcome(100, 9, 0.2)}, 0.05), 1);
}

TEST(CheapestNearBest, APriceThatIsNotKnownOfAllTellsNothing) {
  EXPECT_EQ(cheapest_near_best({outcome(104), outcome(100, 9)}, 0.05), 0);
}

TEST(CheapestNearBest, IsPossible) {
  EXPECT_EQ(cheapest_near_best({impossible(), outcome(100)}, 0.05), 1);
  EXPECT_EQ(cheapest_near_best({impossible()}, 0.05), std::nullopt);
}

}  // namespace
}  // namespace teraio::analysis
