// Inactive periods and footprints of small traces that can be checked by eye.
#include "trace/lifetimes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace teraio::trace {
namespace {

using ::testing::ElementsAre;

Tensor persistent(int64_t bytes) { return {0, bytes, true, TensorKind::kParameter, ""}; }
Tensor transient(int64_t bytes) { return {1, bytes, false, TensorKind::kActivation, ""}; }
Op op(std::vector<TensorIndex> reads, std::vector<TensorIndex> writes,
      std::vector<TensorIndex> frees = {}, int64_t workspace_bytes = 0) {
  return {"op", 1, std::move(reads), std::move(writes), std::move(frees), workspace_bytes};
}

TEST(Lifetimes, ATransientTensorLivesFromItsFirstUseToItsFree) {
  const Trace trace{
      "t",
      "",
      {transient(10)},
      {op({}, {}), op({}, {0}), op({}, {}), op({0}, {}), op({}, {}, {0}), op({}, {})}};
  const Lifetimes lifetimes = lifetimes_of(trace);
  EXPECT_THAT(lifetimes.footprint_bytes, ElementsAre(0, 10, 10, 10, 10, 0));
  EXPECT_THAT(lifetimes.periods,
              ElementsAre(InactivePeriod{0, 2, 3, 0}, InactivePeriod{0, 4, 5, 0, true}));
  EXPECT_THAT(lifetimes.active_bytes, ElementsAre(0, 10, 0, 10, 0, 0));
}

TEST(Lifetimes, WhatIsFreedByItsLastUseIsNotIdleUntilThen) {
  const Trace trace{"t", "", {transient(10)}, {op({}, {0}), op({0}, {}, {0}), op({}, {})}};
  EXPECT_TRUE(lifetimes_of(trace).periods.empty());
}

// A copy made after the last write serves the rest of the tensor's life.
TEST(Lifetimes, TheTimeUntilItIsFreedBelongsToTheLastEpoch) {
  const Trace trace{"t",
                    "",
                    {transient(10)},
                    {op({}, {0}), op({}, {}), op({0}, {}), op({}, {}), op({}, {}, {0})}};
  const Lifetimes lifetimes = lifetimes_of(trace);
  ASSERT_EQ(lifetimes.epochs.size(), 1);
  EXPECT_EQ(lifetimes.epochs[0].periods.size(), 2);
  EXPECT_EQ(lifetimes.periods[1].deadline(), 4);
}

TEST(Lifetimes, APersistentTensorIsIdleOverTheEnd) {
  const Trace trace{"t", "", {persistent(10)}, {op({}, {}), op({0}, {}), op({}, {}), op({}, {})}};
  const Lifetimes lifetimes = lifetimes_of(trace);
  EXPECT_THAT(lifetimes.periods, ElementsAre(InactivePeriod{0, 2, 5, 0}));
  EXPECT_TRUE(lifetimes.epochs[0].never_written);
}

// Read at 0 and 2, written at 4: the copy made after 4 serves the next iteration's reads.
TEST(Lifetimes, AnEpochBeginsBehindAWriteAndWraps) {
  const Trace trace{"t",
                    "",
                    {persistent(10)},
                    {op({0}, {}), op({}, {}), op({0}, {}), op({}, {}), op({}, {0}), op({}, {})}};
  const Lifetimes lifetimes = lifetimes_of(trace);
  ASSERT_EQ(lifetimes.epochs.size(), 1);
  EXPECT_FALSE(lifetimes.epochs[0].never_written);
  std::vector<int64_t> firsts;
  for (int32_t period : lifetimes.epochs[0].periods)
    firsts.push_back(lifetimes.periods[period].first);
  EXPECT_THAT(firsts, ElementsAre(5, 1, 3));
}

TEST(Lifetimes, SmallAndUntouchedTensorsNeverLeave) {
  const Trace trace{"t", "", {persistent(3), persistent(50)}, {op({0}, {}, {}, 7), op({}, {})}};
  const Lifetimes lifetimes = lifetimes_of(trace, 4);
  EXPECT_TRUE(lifetimes.periods.empty());
  EXPECT_THAT(lifetimes.footprint_bytes, ElementsAre(60, 53));
  EXPECT_THAT(lifetimes.active_bytes, ElementsAre(60, 53));
}

TEST(Lifetimes, ATraceWithoutOpsHasNone) {
  EXPECT_TRUE(lifetimes_of(Trace{"t", "", {persistent(1)}, {}}).footprint_bytes.empty());
}

}  // namespace
}  // namespace teraio::trace
