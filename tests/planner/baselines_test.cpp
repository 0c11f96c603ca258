#include "planner/policies/baselines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "plan/validator.h"
#include "planner/on_demand_paging.h"
#include "planner/policies/model_layers.h"
#include "simulate/scenario.h"
#include "simulate/simulator.h"

namespace teraio::planner {
namespace {

using namespace testing;

plan::Plan plan_or_fail(Result<plan::Plan> plan) {
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? *plan : plan::Plan();
}

TEST(OnDemand, NothingMovesWhenEverythingFits) {
  TraceBuilder builder;
  const trace::TensorIndex weight = builder.persistent(1000);
  builder.op(10, {.reads = {weight}});
  const plan::Plan plan =
      plan_or_fail(plan_on_demand(builder.trace(), round_machine(1000), {}, {}));
  EXPECT_TRUE(plan.migrations.empty());
}

// Three weights that are read in turn, the first one again in the middle, with room for two.
class ThreeWeightsTest : public ::testing::Test {
 protected:
  ThreeWeightsTest() {
    a = builder.persistent(1000);
    b = builder.persistent(1000);
    c = builder.persistent(1000);
    builder.op(10, {.reads = {a}});
    builder.op(10, {.reads = {b}});
    builder.op(10, {.reads = {a}});
    builder.op(10, {.reads = {c}});
  }
  plan::Plan planned(OnDemandOptions options) {
    return plan_or_fail(plan_on_demand(builder.trace(), hardware, {}, options));
  }
  std::vector<trace::TensorIndex> leaving(const plan::Plan& plan) {
    std::vector<trace::TensorIndex> tensors;
    for (const plan::Migration& migration : plan.migrations)
      if (migration.action != plan::Action::kPrefetch) tensors.push_back(migration.tensor);
    return tensors;
  }
  TraceBuilder builder;
  hardware::Hardware hardware = round_machine(2000, 5000);
  trace::TensorIndex a, b, c;
};

TEST_F(ThreeWeightsTest, TheFarthestNextUseLeaves) {
  const plan::Plan plan = planned({.eviction_policy = EvictionPolicy::kFarthestNextUse});
  EXPECT_EQ(leaving(plan), (std::vector<trace::TensorIndex>{c, b}));
  EXPECT_TRUE(validate_plan(plan, builder.trace(), hardware, {}).ok());
}

TEST_F(ThreeWeightsTest, HostMemoryComesFirstAndDrivesTakeTheRest) {
  EXPECT_EQ(planned({}).migrations.front().tier, plan::Tier::kHost);
  hardware.host.capacity_bytes = 0;
  const plan::Plan plan = planned({});
  EXPECT_EQ(plan.migrations.front().tier, plan::Tier::kSsd);
  EXPECT_TRUE(validate_plan(plan, builder.trace(), hardware, {}).ok());
}

TEST_F(ThreeWeightsTest, CleanCopiesOnDrivesAreDropped) {
  hardware.host.capacity_bytes = 0;
  for (const plan::Migration& migration : planned({}).migrations)
    EXPECT_NE(migration.action, plan::Action::kOffload);  // no op writes these weights
}

TEST_F(ThreeWeightsTest, ScheduledMovesHappenThoughMemoryIsNotShort) {
  hardware.device_memory_bytes = 3000;
  hardware.host.capacity_bytes = 0;
  const plan::Plan plan = planned({.scheduled = {{b, 2, 0}}});
  ASSERT_EQ(plan.migrations.size(), 2);
  EXPECT_EQ(plan.migrations[0], prefetch(b, 0, 1));
  EXPECT_EQ(plan.migrations[1].trigger_op, 2);
}

TEST_F(ThreeWeightsTest, EvictedTensorsArePrefetchedAheadWhereThereIsRoom) {
  builder.op(10);
  const auto trigger_of_b = [&](OnDemandOptions options) {
    for (const plan::Migration& migration : planned(options).migrations)
      if (migration.tensor == b && migration.action == plan::Action::kPrefetch)
        return migration.trigger_op;
    return trace::OpIndex{-1};
  };
  EXPECT_EQ(trigger_of_b({}), 1);
  EXPECT_EQ(trigger_of_b({.prefetch_ops = {0, 0, 1, 2, 3}}), 1);  // no room for a, b and c
  hardware.device_memory_bytes = 2500;
  builder.op(10, {.workspace_bytes = 1000});
  EXPECT_EQ(trigger_of_b({.prefetch_ops = {0, 0, 1, 2, 3, 4}}), 0);
}

TEST_F(ThreeWeightsTest, AnOpThatCannotFitIsNamed) {
  builder.op(10, {.reads = {a, b}, .workspace_bytes = 1});
  const Result<plan::Plan> plan = plan_on_demand(builder.trace(), hardware, {}, {});
  EXPECT_EQ(plan.status().code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(plan.status().message(), "op 4 (op4) needs 2001 bytes, the device budget is 2000");
}

TEST(OnDemand, WhatIsNotUsedAnyMoreLeavesForGood) {
  TraceBuilder builder;
  const trace::TensorIndex weight = builder.persistent(1000);
  const trace::TensorIndex used_up = builder.transient(1000);
  builder.op(10, {.reads = {weight}, .writes = {used_up}});
  builder.op(10, {.workspace_bytes = 1000});
  builder.op(10, {.reads = {weight}});
  builder.op(10, {.frees = {used_up}});
  const hardware::Hardware hardware = round_machine(2000);
  const plan::Plan plan = plan_or_fail(plan_on_demand(builder.trace(), hardware, {}, {}));
  EXPECT_EQ(plan.migrations, (std::vector<plan::Migration>{offload(used_up, 1, 1)}));
  EXPECT_TRUE(validate_plan(plan, builder.trace(), hardware, {}).ok());
  EXPECT_TRUE(simulate::simulate(builder.trace(), hardware, {}, plan).ok());
}

TEST_F(ThreeWeightsTest, FullTiersAreAFailure) {
  hardware.host.capacity_bytes = 999;
  hardware.drives[0].capacity_bytes = 999;
  EXPECT_EQ(plan_on_demand(builder.trace(), hardware, {}, {}).status().code(),
            ErrorCode::kOutOfSpace);
}

TEST(Layers, AreToldByOpNames) {
  trace::Trace trace;
  for (const char* name : {"embed", "l0.q", "l0.add", "l1.q", "loss", "l1.q", "l0.q"})
    trace.ops.push_back({name, 10, {}, {}, {}, 0});
  const std::vector<int32_t> layers = layer_of_ops(trace);
  EXPECT_EQ(layers, (std::vector<int32_t>{0, 0, 0, 1, 1, 1, 2}));
  EXPECT_EQ(layer_starts(layers), (std::vector<trace::OpIndex>{0, 3, 6}));
}

TEST(Layers, BeginAtParametersWhereNamesDoNotTell) {
  TraceBuilder builder;
  const trace::TensorIndex first = builder.persistent(10);
  const trace::TensorIndex second = builder.persistent(10);
  builder.op(100, {.reads = {first}});
  builder.op(100);
  builder.op(100, {.reads = {second}});
  EXPECT_EQ(layer_of_ops(builder.trace()), (std::vector<int32_t>{0, 0, 1}));
}

// Four layers forward, each with a parameter and an activation, and back; then the update.
trace::Trace small_model() {
  TraceBuilder builder;
  std::vector<trace::TensorIndex> weights, states, activations;
  for (int layer = 0; layer < 5; ++layer) {
    weights.push_back(builder.persistent(1000));
    states.push_back(builder.persistent(1000, trace::TensorKind::kOptimizerState));
    activations.push_back(builder.transient(1000));
  }
  for (int layer = 0; layer < 5; ++layer)
    builder.op(1000, {.reads = {weights[layer]}, .writes = {activations[layer]}});
  for (int layer = 4; layer >= 0; --layer)
    builder.op(1000, {.reads = {weights[layer], activations[layer]}});
  for (int layer = 0; layer < 5; ++layer)
    builder.op(1000, {.writes = {weights[layer], states[layer]}});
  return builder.trace();
}

// What the policy needs of the 15,000 bytes of the small model.
int64_t least_memory_bytes(Baseline baseline) {
  if (baseline == Baseline::kZeroOffload) return 11'000;      // weights, activations, one state
  if (baseline == Baseline::kActivationsOnly) return 12'000;  // weights, states, two activations
  return 5000;
}

TEST(Baselines, AllFitTheSmallModelInTheMemoryOfWhatTheyKeep) {
  const trace::Trace trace = small_model();
  for (Baseline baseline : all_baselines()) {
    SCOPED_TRACE(to_string(baseline));
    const hardware::Hardware hardware = round_machine(least_memory_bytes(baseline), 100'000);
    const plan::Plan plan = plan_or_fail(plan_baseline(baseline, trace, hardware, {}));
    EXPECT_FALSE(plan.migrations.empty());
    const Status valid = validate_plan(plan, trace, hardware, {});
    EXPECT_TRUE(valid.ok()) << valid.message();
  }
}

TEST(Baselines, EachMovesItsOwnKinds) {
  const trace::Trace trace = small_model();
  const hardware::Hardware hardware = round_machine(1'000'000, 1'000'000);
  const auto kinds_moved = [&](Baseline baseline) {
    std::set<trace::TensorKind> kinds;
    for (const plan::Migration& m :
         plan_or_fail(plan_baseline(baseline, trace, hardware, {})).migrations)
      kinds.insert(trace.tensors[m.tensor].kind);
    return kinds;
  };
  using K = trace::TensorKind;
  EXPECT_EQ(kinds_moved(Baseline::kZeroOffload), (std::set<K>{K::kOptimizerState}));
  EXPECT_EQ(kinds_moved(Baseline::kZeroInfinity), (std::set<K>{K::kParameter, K::kOptimizerState}));
  EXPECT_EQ(kinds_moved(Baseline::kActivationsOnly), (std::set<K>{K::kActivation}));
  EXPECT_TRUE(kinds_moved(Baseline::kOnDemandLru).empty());
}

TEST(Baselines, ZeroOffloadNeedsHostMemory) {
  const Result<plan::Plan> plan =
      plan_baseline(Baseline::kZeroOffload, small_model(), round_machine(11'000), {});
  EXPECT_EQ(plan.status().code(), ErrorCode::kOutOfSpace);
}

TEST(Baselines, WhatAPolicyDoesNotMoveHasToFit) {
  for (Baseline baseline : {Baseline::kZeroOffload, Baseline::kActivationsOnly}) {
    SCOPED_TRACE(to_string(baseline));
    const hardware::Hardware hardware = round_machine(9000, 100'000);
    const Status status = plan_baseline(baseline, small_model(), hardware, {}).status();
    EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(status.message().find("beside what the policy does not move"), std::string::npos);
  }
}

TEST(Baselines, ZeroInfinityWritesAWeightToTheHostOncePerUpdate) {
  const trace::Trace trace = small_model();
  const plan::Plan plan =
      plan_or_fail(plan_baseline(Baseline::kZeroInfinity, trace, round_machine(5000, 100'000), {}));
  std::map<trace::TensorIndex, int> written;
  for (const plan::Migration& migration : plan.migrations)
    if (migration.action == plan::Action::kOffload &&
        trace.tensors[migration.tensor].kind == trace::TensorKind::kParameter)
      EXPECT_EQ(++written[migration.tensor], 1);
  EXPECT_FALSE(written.empty());
}

// Three layers without work after each long one: their reads fit beside the long one alone.
TEST(Baselines, ZeroInfinityReadsAsFarAheadAsIsFastest) {
  TraceBuilder builder;
  std::vector<trace::TensorIndex> weights;
  for (int layer = 0; layer < 12; ++layer) weights.push_back(builder.persistent(1000));
  for (int layer = 0; layer < 12; ++layer)
    builder.op(layer % 4 == 0 ? 8000 : 100, {.reads = {weights[layer]}});
  const trace::Trace trace = builder.trace();
  const hardware::Hardware hardware = round_machine(8000, 100'000);
  const plan::Plan plan = plan_or_fail(plan_baseline(Baseline::kZeroInfinity, trace, hardware, {}));
  trace::OpIndex farthest = 0;
  for (const plan::Migration& migration : plan.migrations)
    if (migration.action == plan::Action::kPrefetch)
      farthest = std::max(farthest, migration.deadline_op - migration.trigger_op);
  EXPECT_EQ(farthest, 4);
}

}  // namespace
}  // namespace teraio::planner
