// What is discarded and made again: candidates, sets, their order, and whole plans.
#include "planner/replay_search.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "planner/planned_case.h"
#include "planner/replay_bounds.h"
#include "planner/replay_candidates.h"
#include "planner/replay_set.h"
#include "simulate/scenario.h"
#include "testing/generated_trace.h"

namespace teraio::planner {
namespace {

using namespace testing;

// x is moved or kept: no op of the iteration makes it again. norm = f(x) and act = g(norm) are made
// in 10 ns each, wait for 3000 ns, and are used again. The drive needs 2000 ns for 1000 bytes out
// and back.
//
//   op       0   1   2   3   4   5
//   x        W   r   .   .   .   r
//   norm         W   r   .   r
//   act              W   .   r
class ReplaySetTest : public ::testing::Test {
 protected:
  ReplaySetTest() {
    x = builder.transient(1000);
    norm = builder.transient(1000);
    act = builder.transient(1000);
    builder.op(100, {.writes = {x}});
    builder.op(10, {.reads = {x}, .writes = {norm}, .replayable = true});
    builder.op(10, {.reads = {norm}, .writes = {act}, .replayable = true});
    builder.op(3000, {.workspace_bytes = 2000});
    builder.op(100, {.reads = {norm, act}});
    builder.op(100, {.reads = {x}});
  }

  const Problem& problem() {
    trace = builder.trace();
    index.emplace(trace);
    lifetimes = trace::lifetimes_of(*index);
    problem_.emplace(Problem{trace, *index, lifetimes, hardware, limits});
    return *problem_;
  }
  std::vector<trace::TensorIndex> candidate_tensors(Recompute recompute = Recompute::kAll) {
    const Problem& now = problem();
    std::vector<trace::TensorIndex> tensors;
    for (const ReplayCandidate& c : find_replay_candidates(now, recompute, now.op_ns()))
      for (int32_t period : c.periods) tensors.push_back(lifetimes.periods[period].tensor);
    return tensors;
  }
  std::vector<int32_t> chosen_periods(const ReplaySetOptions& options) {
    const Problem& now = problem();
    const auto candidates = find_replay_candidates(now, Recompute::kAll, now.op_ns());
    return periods_of(candidates, choose_replays(now, candidates, options, now.op_ns()));
  }
  std::vector<trace::TensorIndex> chosen(const ReplaySetOptions& options) {
    std::vector<trace::TensorIndex> tensors;
    for (int32_t period : chosen_periods(options))
      tensors.push_back(lifetimes.periods[period].tensor);
    return tensors;
  }

  using Tensors = std::vector<trace::TensorIndex>;
  TraceBuilder builder;
  hardware::Hardware hardware = round_machine(3000);
  plan::Limits limits;
  trace::Trace trace;
  std::optional<trace::TraceIndex> index;
  trace::Lifetimes lifetimes;
  std::optional<Problem> problem_;
  trace::TensorIndex x, norm, act;
};

TEST_F(ReplaySetTest, WhatAReplayableOpMadeIsACandidate) {
  EXPECT_EQ(candidate_tensors(), (Tensors{norm, act}));
  EXPECT_EQ(candidate_tensors(Recompute::kCheap), (Tensors{norm, act}));
  EXPECT_EQ(candidate_tensors(Recompute::kOff), Tensors());
}

TEST_F(ReplaySetTest, ExpensiveReplaysAreNoneOrNotCheap) {
  hardware.drives[0].rates = {20 * kBytesPerNs, 20 * kBytesPerNs};  // 100 ns out and back
  EXPECT_EQ(candidate_tensors(Recompute::kCheap), Tensors());
  EXPECT_EQ(candidate_tensors(), (Tensors{norm, act}));
  hardware.drives[0].rates = {200 * kBytesPerNs, 200 * kBytesPerNs};
  hardware.device_link = hardware.drives[0].rates;  // 10 ns
  EXPECT_EQ(candidate_tensors(), Tensors());
}

TEST_F(ReplaySetTest, AnInputThatIsGoneOrChangedMakesNoCandidate) {
  builder.op(1, {.writes = {norm}});
  const trace::TensorIndex late = builder.transient(10);
  builder.op(1, {.writes = {late}});
  builder.op(1, {.reads = {act}});  // after norm has changed
  EXPECT_EQ(candidate_tensors(), (Tensors{norm, act}));
  EXPECT_EQ(lifetimes.periods.size(), 5) << "x, and twice norm and act, the first time possible";
}

TEST_F(ReplaySetTest, AChainIsMadeAgainInputsFirst) {
  limits.device_budget_bytes = 3000;  // x stays, at op 3
  EXPECT_EQ(chosen({.transfer_share = 0}), (Tensors{norm, act}));
  const plan::Plan plan = replay_actions(*problem_, chosen_periods({.transfer_share = 0}));
  EXPECT_EQ(plan.migrations, (std::vector<plan::Migration>{discard(norm, 3), discard(act, 3),
                                                           recompute(norm, 4), recompute(act, 4)}));
}

TEST_F(ReplaySetTest, OneReplayBringsBackAllResultsAndCostsOnce) {
  builder = TraceBuilder();
  x = builder.persistent(1000);
  norm = builder.transient(1000);
  act = builder.transient(1000);
  // Moving one of the two takes 2000 ns: for one alone, the replay would cost too much.
  builder.op(1400, {.reads = {x}, .writes = {norm, act}, .replayable = true});
  builder.op(3000, {.workspace_bytes = 2000});
  builder.op(10, {.reads = {norm}});
  builder.op(10);
  builder.op(10, {.reads = {act}});
  EXPECT_EQ(candidate_tensors(), (Tensors{norm, act}));
  const plan::Plan plan = replay_actions(problem(), chosen_periods({.transfer_share = 0}));
  EXPECT_EQ(plan.migrations,
            (std::vector<plan::Migration>{discard(norm, 1), discard(act, 1), recompute(norm, 2)}));
}

TEST_F(ReplaySetTest, WhereHostMemoryIsFullReplaysCompeteWithTheDrives) {
  hardware = round_machine(3000, 1'000'000);
  hardware.host.rates = hardware.device_link = {200 * kBytesPerNs, 200 * kBytesPerNs};
  EXPECT_EQ(candidate_tensors(), Tensors());  // out and back in 10 ns
  hardware.host.capacity_bytes = 100;
  EXPECT_EQ(candidate_tensors(), (Tensors{norm, act}));
  EXPECT_EQ(candidate_tensors(Recompute::kCheap), Tensors());
  EXPECT_EQ(chosen({.transfer_share = 0}), Tensors());
  EXPECT_EQ(chosen({.transfer_share = 0, .cost_share_max = 1000}), (Tensors{norm, act}));
  hardware.drives.clear();
  EXPECT_EQ(candidate_tensors(), (Tensors{norm, act})) << "there is no other place for them";
}

// norm is needed again only long after the replay of act would have made it again.
TEST_F(ReplaySetTest, AReplayNeedsNothingFarAheadOfItsOwnUse) {
  hardware = round_machine(16'000);
  builder = TraceBuilder();
  x = builder.persistent(1000);
  norm = builder.transient(1000);
  act = builder.transient(1000);
  builder.op(10, {.reads = {x}, .writes = {norm}, .replayable = true});
  builder.op(10, {.reads = {norm}, .writes = {act}, .replayable = true});
  builder.op(3000, {.workspace_bytes = 15'000});
  builder.op(10, {.reads = {act}});
  const trace::OpIndex wait = builder.op(100, {.workspace_bytes = 14'500});
  builder.op(10, {.reads = {norm}});
  EXPECT_EQ(chosen({.transfer_share = 0}), (Tensors{norm, act}));
  const std::vector<int32_t> both = chosen_periods({.transfer_share = 0});

  trace::Trace longer = builder.trace();
  longer.ops[wait].duration_ns = 30'000;
  builder = TraceBuilder(longer);
  EXPECT_EQ(chosen({.transfer_share = 0}), (Tensors{norm}));
  const plan::Plan plan = replay_actions(problem(), both);
  EXPECT_EQ(plan.migrations,
            (std::vector<plan::Migration>{discard(norm, 2), discard(act, 2), recompute(norm, 3),
                                          recompute(act, 3), discard(norm, 3), recompute(norm, 5)}))
      << "norm leaves again";
  hardware.device_memory_bytes = 20'000;
  const Status valid = validate_plan(plan, trace, hardware, limits);
  EXPECT_TRUE(valid.ok()) << valid.message();
}

// Forward and backward of a chain: what is kept cuts it into pieces, as checkpoints do.
TEST_F(ReplaySetTest, TheFirstReplayDoesNotBringBackAllOthers) {
  constexpr int kOps = 120;
  hardware.device_memory_bytes = 40'000;
  builder = TraceBuilder();
  Tensors chain = {builder.persistent(1000)};
  for (int i = 0; i < kOps; ++i) {
    chain.push_back(builder.transient(1000));
    builder.op(100, {.reads = {chain[i]}, .writes = {chain[i + 1]}, .replayable = true});
  }
  for (int i = kOps; i > 0; --i) builder.op(200, {.reads = {chain[i]}});
  const Tensors discarded = chosen({.transfer_share = 0});
  EXPECT_GT(discarded.size(), kOps / 2);
  const plan::Plan plan = replay_actions(problem(), chosen_periods({.transfer_share = 0}));
  std::map<trace::OpIndex, int> replays_before;
  for (const plan::Migration& action : plan.migrations)
    replays_before[action.deadline_op] += action.action == plan::Action::kRecompute;
  const auto most =
      std::ranges::max_element(replays_before, {}, [](auto& of) { return of.second; });
  EXPECT_GT(most->second, 1);
  EXPECT_LE(most->second, 6) << "an eighth of the budget, and itself";
}

TEST_F(ReplaySetTest, OnlyAsManyAsOpsNeed) {
  limits.device_budget_bytes = 4000;
  EXPECT_EQ(chosen({.transfer_share = 0}).size(), 1);
}

TEST_F(ReplaySetTest, AShareOfWhatTheyRelieveIsLeftToMoves) {
  limits.device_budget_bytes = 3000;
  EXPECT_EQ(chosen({}).size(), 2);
  EXPECT_EQ(chosen({.moved_share = 0.5}).size(), 1);
  EXPECT_EQ(chosen({.moved_share = 1}).size(), 0);
  EXPECT_EQ(chosen({.moved_share = 1, .first_ns = 1e9}), chosen({}));
}

TEST_F(ReplaySetTest, HiddenTransfersComeFirstWhereTheyHaveTheirShare) {
  builder.op(3000);
  builder.op(1, {.reads = {x}});
  limits.device_budget_bytes = 4000;
  hardware.drives[0].rates = {10 * kBytesPerNs, 10 * kBytesPerNs};
  EXPECT_EQ(chosen({.transfer_share = 1}),
            chosen({.transfer_share = 0}));  // x cannot leave in time
  builder = TraceBuilder();
  x = builder.persistent(1000);
  norm = builder.transient(1000);
  builder.op(1000, {.reads = {x}});
  builder.op(10, {.writes = {norm}, .replayable = true});
  builder.op(2000);
  builder.op(3000, {.workspace_bytes = 2000});
  builder.op(2000);
  builder.op(100, {.reads = {norm}});
  limits.device_budget_bytes = 3000;
  EXPECT_EQ(chosen({.transfer_share = 0}), (Tensors{norm}));
  EXPECT_EQ(chosen({.transfer_share = 1}), Tensors());  // the weight is away at no cost
}

TEST_F(ReplaySetTest, WhatIdleBandwidthCanMoveIsNotMadeAgain) {
  const auto moved_in = [this](int64_t last_ns) {
    builder = TraceBuilder();
    norm = builder.transient(1000);
    builder.op(10, {.writes = {norm}, .replayable = true});
    builder.op(1500);
    builder.op(3000, {.workspace_bytes = 2500});
    builder.op(last_ns);
    builder.op(100, {.reads = {norm}});
    const Problem& now = problem();
    const auto candidates = find_replay_candidates(now, Recompute::kAll, now.op_ns());
    const std::vector<int32_t> periods = chosen_periods({.transfer_share = 0});
    EXPECT_EQ(periods.size(), 1);
    return without_movable(now, candidates, periods, now.op_ns()).empty();
  };
  EXPECT_TRUE(moved_in(1500));
  EXPECT_FALSE(moved_in(500)) << "the read would begin while memory is full";
}

TEST_F(ReplaySetTest, WhatFitsBesideTheMovesIsNotMadeAgain) {
  builder = TraceBuilder();
  x = builder.persistent(1000);
  norm = builder.transient(1000);
  builder.op(100, {.reads = {x}});
  builder.op(1500);
  builder.op(10, {.writes = {norm}, .replayable = true});
  builder.op(3000, {.workspace_bytes = 2000});  // no time to move the new tensor
  builder.op(100, {.reads = {norm}});
  builder.op(3000, {.workspace_bytes = 3000});  // the weight has to be away
  builder.op(1500);
  limits.device_budget_bytes = 3000;
  const Problem& now = problem();
  const auto candidates = find_replay_candidates(now, Recompute::kAll, now.op_ns());
  const std::vector<int32_t> periods = chosen_periods({.transfer_share = 0});
  EXPECT_EQ(periods.size(), 1);
  EXPECT_TRUE(without_movable(now, candidates, periods, now.op_ns()).empty());
}

// --- Whole plans ---

TEST(Recomputation, HidesWhatNoTransferCan) {
  const PlannedCase l8 = case_of("l8", "h100_ssd4");
  EXPECT_LT(fraction_of_ideal(l8.run({.recompute = Recompute::kOff})), 0.5);
  EXPECT_GT(fraction_of_ideal(l8.run({.recompute = Recompute::kCheap})), 0.92);
  EXPECT_GT(fraction_of_ideal(l8.run({.recompute = Recompute::kAll})), 0.965);
}

// Layers of x -> a -> b -> next x, whose backward pass needs all three. With `checkpointed`, the
// program keeps only x, and runs the layer again itself.
trace::Trace layers(bool checkpointed) {
  constexpr int kLayers = 80;
  TraceBuilder builder;
  std::vector<trace::TensorIndex> x = {builder.transient(1000)};
  std::vector<trace::TensorIndex> a, b;
  const auto run_layer = [&](int layer) {
    a.push_back(builder.transient(1000));
    b.push_back(builder.transient(1000));
    builder.op(100, {.reads = {x[layer]}, .writes = {a.back()}, .replayable = true});
    builder.op(10, {.reads = {a.back()}, .writes = {b.back()}, .replayable = true});
  };
  builder.op(10, {.writes = {x[0]}});
  for (int layer = 0; layer < kLayers; ++layer) {
    run_layer(layer);
    x.push_back(builder.transient(1000));
    builder.op(100, {.reads = {x[layer], b.back()}, .writes = {x.back()}, .replayable = true});
  }
  for (int layer = kLayers - 1; layer >= 0; --layer) {
    if (checkpointed) run_layer(layer);
    const size_t now = checkpointed ? a.size() - 1 : layer;
    builder.op(200, {.reads = {b[now]}});
    builder.op(20, {.reads = {a[now]}});
    builder.op(200, {.reads = {x[layer]}});
  }
  return builder.trace();
}

TEST(Recomputation, IsNoSlowerThanAProgramThatCheckpoints) {
  const hardware::Hardware hardware = round_machine(40'000);
  const auto step_ns = [&](bool checkpointed, Recompute recompute) {
    return PlannedCase{layers(checkpointed), hardware}.step_ns({.recompute = recompute});
  };
  const int64_t checkpointed_ns = step_ns(true, Recompute::kOff);
  EXPECT_LT(checkpointed_ns, step_ns(false, Recompute::kOff) / 2);
  EXPECT_LE(step_ns(false, Recompute::kAll), checkpointed_ns);
}

// Plans by next use need more room, so that the rounds have to find these.
TEST(Recomputation, HostMemoryThatIsNearlyFullSuffices) {
  PlannedCase gr8 = case_of("gr8", "h100_ssd4");
  gr8.hardware.drives.clear();
  gr8.hardware.host.capacity_bytes = 20'000'000'000;
  EXPECT_GT(fraction_of_ideal(gr8.run({})), 0.9);
}

TEST(Recomputation, SavesWritesWhenAsked) {
  const PlannedCase l8 = case_of("l8", "h100_ssd");
  const simulate::Run fast = l8.run({.recompute = Recompute::kAll});
  const simulate::Run lean = l8.run({.recompute = Recompute::kAll, .prefer = Prefer::kWear});
  EXPECT_GT(fraction_of_ideal(fast), 0.998);
  EXPECT_GT(fraction_of_ideal(lean), 0.994);
  EXPECT_LT(lean.ssd_bytes_written, 36'000'000'000);
  EXPECT_LT(lean.ssd_bytes_written, fast.ssd_bytes_written / 3);
}

TEST(Recomputation, WearIsSparedWithoutReplaysToo) {
  const PlannedCase vit = case_of("VIT-1280", "a100_g10");
  const simulate::Run fast = vit.run({.recompute = Recompute::kOff});
  const simulate::Run lean = vit.run({.recompute = Recompute::kOff, .prefer = Prefer::kWear});
  EXPECT_TRUE(lean.replays.empty());
  EXPECT_LE(lean.ssd_bytes_written, fast.ssd_bytes_written);
  EXPECT_LE(lean.step_ns, 1.005 * static_cast<double>(fast.step_ns));
}

TEST(Recomputation, WhatTheHostHoldsWearsNoDrive) {
  const PlannedCase gr8 = case_of("gr8", "h100_mixed");
  for (const Recompute recompute : {Recompute::kOff, Recompute::kAll}) {
    const simulate::Run run = gr8.run({.recompute = recompute});
    EXPECT_EQ(run.ssd_bytes_written, 0);
    EXPECT_GT(fraction_of_ideal(run), 0.999);
  }
}

TEST(Recomputation, KeepsAWriteBudget) {
  PlannedCase l8 = case_of("l8", "h100_ssd");
  l8.limits.write_budget_bytes = 60'000'000'000;
  const simulate::Run run = l8.run({.recompute = Recompute::kAll});
  EXPECT_LE(run.ssd_bytes_written, 60'000'000'000);
  EXPECT_GT(fraction_of_ideal(run), 0.98);
}

class GeneratedReplays : public ::testing::TestWithParam<uint64_t> {};

TEST_P(GeneratedReplays, AreLegalAndNeverSlowerThanNone) {
  GeneratedTraceOptions options;
  options.op_count = 40 + static_cast<int64_t>(GetParam()) * 3;
  trace::Trace trace = generated_trace(GetParam(), options);
  for (size_t k = 0; k < trace.ops.size(); ++k) trace.ops[k].replayable = k % 4 != 0;
  const hardware::Hardware hardware = generated_hardware(GetParam(), trace);
  const auto step_ns = [&](const PlannerOptions& planner_options) {
    const simulate::Run run = PlannedCase{trace, hardware}.run(planner_options);
    EXPECT_EQ(run.step_ns, run.ideal_ns + run.replay_ns + run.stall_ns);
    return run.step_ns;
  };
  const int64_t off_ns = step_ns({.recompute = Recompute::kOff});
  const double with_replays_ns = static_cast<double>(step_ns({.recompute = Recompute::kAll}));
  // Of plans as good as equal, the one that writes less to the drives is returned.
  EXPECT_LE(with_replays_ns, 1.0006 * static_cast<double>(off_ns));
  const StepBounds bounds = lower_bounds_with_replays(trace, hardware, {});
  EXPECT_GE(with_replays_ns, static_cast<double>(bounds.best_ns()));
  EXPECT_LE(bounds.best_ns(), lower_bounds(trace, hardware, {}).best_ns());
  step_ns({.effort = Effort::kBest,
           .recompute = Recompute::kAll,
           .prefer = Prefer::kWear,
           .time_limit_ns = 200'000'000});
}

class ReplaysBesideAnAmpleHost : public ::testing::TestWithParam<uint64_t> {};

// Host memory alone may do better than together with the drives.
TEST_P(ReplaysBesideAnAmpleHost, AreNeverSlowerThanNone) {
  trace::Trace trace = generated_trace(GetParam(), {.op_count = 150});
  for (size_t k = 0; k < trace.ops.size(); ++k) trace.ops[k].replayable = k % 4 != 0;
  hardware::Hardware hardware = generated_hardware(GetParam(), trace);
  hardware.host = {1'000'000'000'000'000, hardware.device_link};
  const auto step_ns = [&](Recompute recompute) {
    const PlannedCase given{trace, hardware};
    return static_cast<double>(given.step_ns({.recompute = recompute}));
  };
  EXPECT_LE(step_ns(Recompute::kAll), 1.0005 * step_ns(Recompute::kOff));
}

// One action that is left out, moved in the file or in time, or turned into another.
plan::Plan damaged(plan::Plan plan, Random& random) {
  const auto last = static_cast<int64_t>(plan.migrations.size()) - 1;
  plan::Migration& action = plan.migrations[random.between(0, last)];
  switch (random.between(0, 3)) {
    case 0:
      plan.migrations.erase(plan.migrations.begin() + (&action - plan.migrations.data()));
      break;
    case 1:
      std::swap(action, plan.migrations[random.between(0, last)]);
      break;
    case 2:
      action.trigger_op += static_cast<trace::OpIndex>(random.between(-2, 2));
      action.deadline_op = std::max(action.deadline_op, action.trigger_op);
      break;
    default:
      action.action = static_cast<plan::Action>(random.between(0, 4));
  }
  return plan;
}

// An execution may wait for room, and a replay that nobody needs does not stop it.
bool may_be_executed(const Status& refusal) {
  const std::string& message = refusal.message();
  return message.starts_with("device memory") || message.starts_with("recompute-without-use") ||
         message.find(" capacity: ") != message.npos;
}

TEST_P(GeneratedReplays, DamagedOnesAreExecutedOrRefusedWithTheRule) {
  GeneratedTraceOptions options;
  options.op_count = 120;
  trace::Trace trace = generated_trace(GetParam(), options);
  for (size_t k = 0; k < trace.ops.size(); ++k) trace.ops[k].replayable = k % 4 != 0;
  const hardware::Hardware hardware = generated_hardware(GetParam(), trace);
  const plan::Plan whole = *plan(trace, hardware, {}, {.recompute = Recompute::kAll});
  Random random(GetParam());
  for (int i = 0; i < 60 && !whole.migrations.empty(); ++i) {
    const plan::Plan broken = damaged(whole, random);
    const Status valid = validate_plan(broken, trace, hardware, {});
    const Result<simulate::Run> run = simulate::simulate(trace, hardware, {}, broken);
    if (valid.ok())
      EXPECT_TRUE(run.ok()) << run.status().message();
    else if (!may_be_executed(valid))
      EXPECT_EQ(run.status().message(), valid.message());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, GeneratedReplays, ::testing::Range<uint64_t>(0, 40));
INSTANTIATE_TEST_SUITE_P(Seeds, ReplaysBesideAnAmpleHost, ::testing::Range<uint64_t>(240, 280));

}  // namespace
}  // namespace teraio::planner
