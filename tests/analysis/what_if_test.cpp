// what_if(): steps whose time on each machine is known by hand.
#include "analysis/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulate/scenario.h"
#include "testing/generated_trace.h"

namespace teraio::analysis {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Each op of 100 ns waits for the read of its weight.
SweepRequest request_for_two_in_turn() {
  return {two_weights_in_turn(), {round_machine(1000), {}}, {}, {}, {}};
}

std::vector<SweepPoint> points_of(SweepParameter parameter, std::vector<int64_t> values) {
  std::vector<SweepPoint> points;
  for (int64_t value : values) points.push_back({{parameter, value}});
  return points;
}

std::vector<int64_t> steps_of(const std::vector<SweepResult>& results) {
  std::vector<int64_t> steps;
  for (const SweepResult& result : results) {
    EXPECT_TRUE(result.status.ok()) << result.status.message();
    steps.push_back(result.run.step_ns);
  }
  return steps;
}

TEST(WhatIf, EachDriveTakesItsPartOfARead) {
  const auto results =
      what_if(request_for_two_in_turn(), points_of(SweepParameter::kDrives, {1, 2, 4}));
  EXPECT_THAT(steps_of(results), ElementsAre(2200, 1200, 700));
}

TEST(WhatIf, FasterDrivesAreAsGoodAsMoreOfThem) {
  const std::vector<int64_t> rates = {kBytesPerNs, 2 * kBytesPerNs, 4 * kBytesPerNs};
  const auto results =
      what_if(request_for_two_in_turn(), points_of(SweepParameter::kBandwidth, rates));
  EXPECT_THAT(steps_of(results), ElementsAre(2200, 1200, 700));
}

TEST(WhatIf, WithTwiceTheMemoryNothingMoves) {
  const auto results =
      what_if(request_for_two_in_turn(), points_of(SweepParameter::kDeviceMemory, {1000, 2000}));
  EXPECT_THAT(steps_of(results), ElementsAre(2200, 200));
}

TEST(WhatIf, WhatIsNotPossibleStaysInItsPlaceAndSaysWhy) {
  const auto results =
      what_if(request_for_two_in_turn(), points_of(SweepParameter::kDeviceMemory, {999, 1000}));
  ASSERT_EQ(results.size(), 2);
  EXPECT_EQ(results[0].status.code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(results[0].status.message(), HasSubstr("op 0 (op0) needs 1000 bytes at once"));
  EXPECT_TRUE(results[1].status.ok());
}

// The planner alone makes some steps longer where a machine has more. The simulator
// may execute the same plan up to .25 % slower there, because transfers meet in another order.
class MoreIsNotSlower : public ::testing::TestWithParam<uint64_t> {};

TEST_P(MoreIsNotSlower, OfAnyResource) {
  const trace::Trace trace = generated_trace(GetParam());
  const hardware::Hardware hardware = generated_hardware(GetParam(), trace);
  for (SweepParameter parameter : {SweepParameter::kDrives, SweepParameter::kHostMemory,
                                   SweepParameter::kBandwidth, SweepParameter::kDeviceMemory}) {
    SCOPED_TRACE(to_string(parameter));
    const int64_t value = current_value({hardware, {}}, parameter);
    const auto results =
        what_if({trace, {hardware, {}}, {}, {}, {}},
                points_of(parameter, {value, 21 * value / 20, 5 * value / 4, 2 * value}));
    const std::vector<int64_t> steps = steps_of(results);
    for (size_t i = 1; i < steps.size(); ++i)
      EXPECT_LE(steps[i], steps[i - 1] + steps[i - 1] / 400);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MoreIsNotSlower, ::testing::Range<uint64_t>(0, 100));

TEST(WhatIf, TellsHowManyAreDone) {
  std::vector<size_t> done;
  what_if(request_for_two_in_turn(), points_of(SweepParameter::kDrives, {1, 2, 3, 4, 5}),
          [&](size_t count) { done.push_back(count); });
  EXPECT_THAT(done, ElementsAre(1, 2, 3, 4, 5));
}

TEST(WhatIf, OnlyWhatThePriceFileKnowsHasACost) {
  SweepRequest request = request_for_two_in_turn();
  request.prices = Prices{.name = "p", .server = 1000, .drive = 100};
  request.tokens_per_step = 10;
  const auto results = what_if(
      request, {{{SweepParameter::kDrives, 3}}, {{SweepParameter::kBandwidth, kBytesPerNs}}});
  ASSERT_TRUE(results[0].cost);
  EXPECT_DOUBLE_EQ(results[0].cost->price, 1300);
  EXPECT_FALSE(results[1].cost);
}

TEST(WhatIf, HostMemoryThatMayNotBeUsedIsNotPaidFor) {
  SweepRequest request = request_for_two_in_turn();
  request.machine.hardware.host.capacity_bytes = int64_t{5} << 30;
  request.prices = Prices{.name = "p", .server = 1000, .host_memory_per_gib = 10};
  EXPECT_DOUBLE_EQ(what_if(request, {{}})[0].cost->price, 1050);
  request.machine.limits.host_limit_bytes = 0;
  EXPECT_DOUBLE_EQ(what_if(request, {{}})[0].cost->price, 1000);
}

SweepResult result(int64_t step_ns, std::optional<double> price = {},
                   std::optional<double> per_token = {}) {
  SweepResult result;
  result.run.step_ns = step_ns;
  if (price) result.cost = Cost{*price, {}, per_token};
  return result;
}

SweepResult impossible() {
  SweepResult result;
  result.status = Status(ErrorCode::kOutOfMemory, "does not fit");
  return result;
}

TEST(CheapestNearBest, IsTheFirstWithoutPrices) {
  EXPECT_EQ(cheapest_near_best({result(200), result(105), result(100)}, 0.05), 1);
  EXPECT_EQ(cheapest_near_best({result(200), result(106), result(100)}, 0.05), 2);
}

TEST(CheapestNearBest, IsTheLowestPriceOfThoseNearTheBest) {
  EXPECT_EQ(cheapest_near_best({result(200, 1), result(104, 9), result(100, 8)}, 0.05), 2);
}

TEST(CheapestNearBest, CostPerTokenCountsMoreThanThePrice) {
  EXPECT_EQ(cheapest_near_best({result(104, 8, 0.3), result(100, 9, 0.2)}, 0.05), 1);
}

TEST(CheapestNearBest, APriceThatIsNotKnownOfAllTellsNothing) {
  EXPECT_EQ(cheapest_near_best({result(104), result(100, 9)}, 0.05), 0);
}

TEST(CheapestNearBest, IsPossible) {
  EXPECT_EQ(cheapest_near_best({impossible(), result(100)}, 0.05), 1);
  EXPECT_EQ(cheapest_near_best({impossible()}, 0.05), std::nullopt);
}

}  // namespace
}  // namespace teraio::analysis
