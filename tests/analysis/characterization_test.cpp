// Characterization: on a step whose memory and idle times are known by hand, and the migration
// roofline of another.
#include "analysis/characterization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "simulate/scenario.h"
#include "testing/generated_trace.h"
#include "trace/lifetimes.h"

namespace teraio::analysis {
namespace {

using namespace testing;
using ::testing::ElementsAre;

constexpr int64_t kMb = 1'000'000;
constexpr int64_t kMs = 1'000'000;

// op               0      1       2      3
// takes          1 ms   30 ms   5 ms   4 ms
// weight 100 MB    r      .       .      W     idle for 35 ms, and not over the end
// act 20 MB               W       .      r     idle for 5 ms
// workspace                       7 MB
trace::Trace known_step() {
  TraceBuilder builder;
  const trace::TensorIndex weight = builder.persistent(100 * kMb);
  const trace::TensorIndex activation = builder.transient(20 * kMb);
  builder.op(1 * kMs, {.reads = {weight}});
  builder.op(30 * kMs, {.writes = {activation}});
  builder.op(5 * kMs, {.workspace_bytes = 7 * kMb});
  builder.op(4 * kMs, {.reads = {activation}, .writes = {weight}, .frees = {activation}});
  return builder.trace();
}

TEST(Characterization, TellsAllAndActiveBytesOfEachOp) {
  const Characterization facts = characterize(known_step(), 10);
  EXPECT_EQ(facts.step_ns, 40 * kMs);
  EXPECT_THAT(facts.ops, ElementsAre(OpMemory{100 * kMb, 100 * kMb}, OpMemory{120 * kMb, 20 * kMb},
                                     OpMemory{127 * kMb, 7 * kMb}, OpMemory{120 * kMb, 120 * kMb}));
}

TEST(Characterization, TellsWhatFillsTheMemoryAtItsPeak) {
  const PeakMemory peak = memory_at_peak(known_step());
  EXPECT_EQ(peak.op, 2);
  EXPECT_THAT(peak.kinds, ElementsAre(KindBytes{trace::TensorKind::kParameter, 100 * kMb},
                                      KindBytes{trace::TensorKind::kActivation, 20 * kMb},
                                      KindBytes{trace::TensorKind::kWorkspace, 7 * kMb}));
}

TEST(Characterization, LeavesTheDeadAndTheUnusedOutOfThePeak) {
  TraceBuilder builder;
  const trace::TensorIndex first = builder.transient(5 * kMb);
  const trace::TensorIndex second = builder.transient(20 * kMb);
  builder.transient(40 * kMb);  // no op uses it
  builder.op(1 * kMs, {.writes = {first}, .frees = {first}});
  builder.op(1 * kMs, {.writes = {second}});
  builder.op(1 * kMs, {.reads = {second}});
  const PeakMemory peak = memory_at_peak(builder.trace());
  EXPECT_EQ(peak.op, 1) << "the first of two equal ones";
  EXPECT_THAT(peak.kinds, ElementsAre(KindBytes{trace::TensorKind::kActivation, 20 * kMb}));
}

TEST(Characterization, ListsTheLargestAndTheLongestIdleByName) {
  trace::Trace trace = known_step();
  trace.tensors[1].name = "layers.0.output";
  const Characterization facts = characterize(trace, 1);
  ASSERT_EQ(facts.largest.size(), 1);
  EXPECT_EQ(facts.largest[0], (IdleTensor{0, "tensor 0, first in op 0 (op0)", 35 * kMs, 2}));
  const std::vector<IdleTensor> both = characterize(trace, 2).longest_idle;
  ASSERT_EQ(both.size(), 2);
  EXPECT_EQ(both[1], (IdleTensor{1, "layers.0.output", 5 * kMs, 2}));
}

TEST(Characterization, OfThoseThatIdleAboutAsLongTheLargestComesFirst) {
  TraceBuilder builder;
  const trace::TensorIndex small = builder.persistent(10);
  const trace::TensorIndex large = builder.persistent(1000);
  builder.op(1, {.reads = {large}});
  builder.op(0, {.reads = {small}});
  builder.op(1000);
  const std::vector<IdleTensor> listed = characterize(builder.trace(), 2).longest_idle;
  EXPECT_GT(listed[1].longest_idle_ns, listed[0].longest_idle_ns);
  EXPECT_EQ(listed[0].tensor, large);
}

TEST(Characterization, APersistentTensorIsIdleOverTheEnd) {
  TraceBuilder builder;
  const trace::TensorIndex frozen = builder.persistent(1);
  builder.op(10);
  builder.op(20, {.reads = {frozen}});
  builder.op(300);
  EXPECT_EQ(characterize(builder.trace(), 1).longest_idle[0].longest_idle_ns, 310);
}

TEST(Characterization, WhatNoOpUsesIsInMemoryAndInNoTable) {
  TraceBuilder builder;
  builder.persistent(500);
  builder.op(10);
  const Characterization facts = characterize(builder.trace(), 5);
  EXPECT_THAT(facts.ops, ElementsAre(OpMemory{500, 0}));
  EXPECT_TRUE(facts.largest.empty());
  EXPECT_EQ(facts.kinds.back(), (KindSummary{"all"}));
}

class Characterizations : public ::testing::TestWithParam<uint64_t> {};

TEST_P(Characterizations, AddUp) {
  const trace::Trace trace = generated_trace(GetParam());
  const Characterization facts = characterize(trace, 1000);
  const trace::Lifetimes lifetimes = lifetimes_of(trace);
  for (const OpMemory& op : facts.ops) EXPECT_LE(op.active_bytes, op.all_bytes);
  const auto period_count = std::count_if(lifetimes.periods.begin(), lifetimes.periods.end(),
                                          [](const auto& period) { return !period.until_freed; });
  EXPECT_EQ(facts.kinds.back().period_count, period_count);
  EXPECT_EQ(std::accumulate(facts.cells.begin(), facts.cells.end(), int64_t{0},
                            [](int64_t sum, const PeriodCell& c) { return sum + c.period_count; }),
            period_count);
  int64_t phase_ops = 0;
  for (const PhaseMemory& phase : facts.phases) phase_ops += phase.op_count;
  EXPECT_EQ(phase_ops, 2 * static_cast<int64_t>(trace.ops.size()));  // phases, and the whole
  for (const IdleTensor& listed : facts.longest_idle)
    EXPECT_LE(listed.longest_idle_ns, facts.step_ns);
  EXPECT_EQ(static_cast<int64_t>(facts.largest.size()), facts.kinds.back().tensor_count);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Characterizations, ::testing::Range<uint64_t>(0, 30));

TEST(MigrationRoofline, IsTransferTimeUntilComputeTakesLonger) {
  const int64_t rates[] = {kBytesPerNs, 5 * kBytesPerNs, 10 * kBytesPerNs, 40 * kBytesPerNs};
  const auto points = migration_roofline(two_weights_in_turn(), 1000, rates);
  ASSERT_TRUE(points.ok()) << points.status().message();
  ASSERT_EQ(points->size(), 4);
  EXPECT_EQ((*points)[1].bytes_per_second, rates[1]);
  EXPECT_NEAR((*points)[0].fraction_of_ideal, 0.1, 1e-3);
  EXPECT_NEAR((*points)[1].fraction_of_ideal, 0.5, 1e-2);
  EXPECT_NEAR((*points)[2].fraction_of_ideal, 1.0, 1e-2);
  EXPECT_EQ((*points)[3].fraction_of_ideal, 1.0);
}

TEST(MigrationRoofline, IsFlatWhereEverythingFits) {
  const int64_t rates[] = {1, kBytesPerNs};
  const auto points = migration_roofline(two_weights_in_turn(), 2000, rates);
  ASSERT_TRUE(points.ok());
  for (const RooflinePoint& point : *points) EXPECT_EQ(point.fraction_of_ideal, 1.0);
}

TEST(MigrationRoofline, ThereIsNoneWhereAnOpDoesNotFit) {
  const int64_t rates[] = {kBytesPerNs};
  const auto points = migration_roofline(two_weights_in_turn(), 999, rates);
  EXPECT_EQ(points.status().code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(points.status().message(),
            "an op needs 1000 bytes at once, the device has 999: no bandwidth helps");
}

}  // namespace
}  // namespace teraio::analysis
