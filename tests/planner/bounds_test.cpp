#include "planner/bounds.h"

#include <gtest/gtest.h>

#include "planner/min_traffic.h"
#include "simulate/scenario.h"
#include "trace/trace_index.h"

namespace teraio::planner {
namespace {

using namespace testing;

TEST(MinTraffic, NothingMovesWhenEverythingFits) {
  const trace::TraceIndex index(two_weights_in_turn());
  EXPECT_EQ(min_reads(index, 2000, 0, 4), (std::vector<int64_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(min_writes(index, 2000, 0, 4), (std::vector<int64_t>{0, 0, 0, 0, 0}));
}

TEST(MinTraffic, TensorsThatTakeTurnsAreReadEachTime) {
  const trace::TraceIndex index(two_weights_in_turn());
  EXPECT_EQ(min_reads(index, 1000, 0, 4), (std::vector<int64_t>{0, 1000, 2000, 3000, 4000}));
}

TEST(MinTraffic, PartsOfATensorMayStay) {
  const trace::TraceIndex index(two_weights_in_turn());
  EXPECT_EQ(min_reads(index, 1600, 0, 2), (std::vector<int64_t>{0, 400, 800}));
}

TEST(MinTraffic, WhatIsUsedLastIsEvicted) {
  TraceBuilder builder;
  const trace::TensorIndex soon = builder.persistent(600);
  const trace::TensorIndex late = builder.persistent(600);
  builder.op(100, {.workspace_bytes = 600});
  builder.op(100, {.reads = {soon}});
  builder.op(100, {.reads = {late}});
  const trace::TraceIndex index(builder.trace());
  EXPECT_EQ(min_reads(index, 1200, 0, 2), (std::vector<int64_t>{0, 0, 600}));
}

TEST(MinTraffic, FrozenTensorsAreNeverWritten) {
  const trace::TraceIndex index(two_weights_in_turn());
  EXPECT_EQ(min_writes(index, 1000, 0, 4).back(), 0);
}

TEST(MinTraffic, AnActivationIsWrittenOnceHoweverOftenItIsAway) {
  TraceBuilder builder;
  const trace::TensorIndex activation = builder.transient(1000);
  builder.op(100, {.writes = {activation}});
  builder.op(100, {.workspace_bytes = 1000});
  builder.op(100, {.reads = {activation}});
  builder.op(100, {.workspace_bytes = 1000});
  builder.op(100, {.reads = {activation}});
  const trace::TraceIndex index(builder.trace());
  EXPECT_EQ(min_writes(index, 1000, 5, 5).back(), 1000);
  EXPECT_EQ(min_writes(index, 1000, 5, 4).back(), 0);  // its making is outside
  EXPECT_EQ(min_reads(index, 1000, 0, 5).back(), 2000);
}

// Either tensor may be away at op 3. The newer one is away at op 2 anyway, which uses the other.
TEST(MinTraffic, WhatAnOpUsesIsNoReasonToWriteMore) {
  TraceBuilder builder;
  const trace::TensorIndex older = builder.transient(1000);
  const trace::TensorIndex newer = builder.transient(1000);
  builder.op(100, {.writes = {older}});
  builder.op(100, {.writes = {newer}});
  builder.op(100, {.reads = {older}, .workspace_bytes = 1000});
  builder.op(100, {.workspace_bytes = 1000});
  builder.op(100, {.reads = {older, newer}});
  const trace::TraceIndex index(builder.trace());
  EXPECT_EQ(min_writes(index, 2000, 5, 5).back(), 1000);  // the newer one, away during both ops
}

TEST(LowerBounds, ComputeAloneWhenEverythingFits) {
  const StepBounds bounds = lower_bounds(two_weights_in_turn(), round_machine(2000), {});
  EXPECT_EQ(bounds.best_ns(), 200);
}

TEST(LowerBounds, TrafficOfAnIteration) {
  const StepBounds bounds = lower_bounds(two_weights_in_turn(), round_machine(1000), {});
  EXPECT_NEAR(bounds.traffic_ns, 2000, 1);
  EXPECT_GE(bounds.windows_ns, 1999);
}

TEST(LowerBounds, LimitsCount) {
  plan::Limits limits;
  limits.device_budget_bytes = 1500;
  EXPECT_NEAR(lower_bounds(two_weights_in_turn(), round_machine(2000), limits).traffic_ns, 1000, 1);
}

TEST(LowerBounds, HostMemoryAddsItsRateUpToTheLink) {
  hardware::Hardware hardware = round_machine(1000, 10'000);
  EXPECT_NEAR(lower_bounds(two_weights_in_turn(), hardware, {}).traffic_ns, 1000, 1);
  hardware.device_link.read_bytes_per_second = kBytesPerNs / 2;
  EXPECT_NEAR(lower_bounds(two_weights_in_turn(), hardware, {}).traffic_ns, 4000, 1);
}

TEST(LowerBounds, AWindowMayBeTighterThanTheIteration) {
  TraceBuilder builder;  // long compute does not help the two ops at the end
  const trace::TensorIndex a = builder.persistent(1000);
  const trace::TensorIndex b = builder.persistent(1000);
  builder.op(100'000, {.reads = {a}});
  builder.op(100, {.reads = {a}});
  builder.op(100, {.reads = {b}});
  const StepBounds bounds = lower_bounds(builder.trace(), round_machine(1000), {});
  EXPECT_LT(bounds.traffic_ns, bounds.compute_ns);
  EXPECT_GT(bounds.windows_ns, bounds.compute_ns + 800);
}

// Short beside the iteration, so that points at even steps see none of the bursts.
TEST(LowerBounds, EveryShortBurstCounts) {
  constexpr int kBursts = 5;
  TraceBuilder builder;
  const trace::TensorIndex a = builder.persistent(1000);
  const trace::TensorIndex b = builder.persistent(1000);
  for (int burst = 0; burst < kBursts; ++burst) {
    for (int k = 0; k < 200; ++k) builder.op(1000, {.reads = {a}});
    builder.op(10, {.reads = {b}});
    builder.op(10, {.reads = {a}});
  }
  const StepBounds bounds = lower_bounds(builder.trace(), round_machine(1000), {}, 40);
  EXPECT_GT(bounds.windows_ns, bounds.compute_ns + kBursts * 900);
}

}  // namespace
}  // namespace teraio::planner
