// Replays in the simulator, computed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "simulate/replayed_trace.h"
#include "simulate/run_file.h"
#include "simulate/simulation.h"

namespace teraio::simulate {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// a = f(weight) takes 100 ns. Op 1 needs 1000 bytes of workspace, op 2 uses a again.
class ReplayTest : public Simulation {
 protected:
  ReplayTest() : Simulation(round_machine(10'000, 10'000)) {
    weight = builder.persistent(100);
    a = builder.transient(1000);
    builder.op(100, {.reads = {weight}, .writes = {a}, .replayable = true});
    builder.op(2000, {.workspace_bytes = 1000});
    builder.op(50, {.reads = {a}});
    limits.device_budget_bytes = 1500;
  }

  trace::TensorIndex weight;
  trace::TensorIndex a;
};

TEST_F(ReplayTest, ItTakesTheTimeOfItsOpAndMovesNothing) {
  const simulate::Run result = run({discard(a, 1), recompute(a, 2)});
  EXPECT_EQ(result.ideal_ns, 2150);
  EXPECT_EQ(result.replay_ns, 100);
  EXPECT_EQ(result.stall_ns, 0);
  EXPECT_EQ(result.step_ns, 2250);
  EXPECT_EQ(result.op_start_ns, (std::vector<int64_t>{0, 100, 2200}));
  EXPECT_EQ(result.replays, (std::vector<ReplayRecord>{{0, 2, 2100, 2200, 0, {a}}}));
  EXPECT_EQ(result.discards, (std::vector<DiscardRecord>{{a, 100}}));
  EXPECT_EQ(result.ssd_bytes_written + result.ssd_bytes_read, 0);
  EXPECT_EQ(result.device_peak_bytes, 1100);
  EXPECT_EQ(stall_of_ops(result, builder.trace()), (std::vector<int64_t>{0, 0, 0}));
}

TEST_F(ReplayTest, ItWaitsForItsInputs) {
  const simulate::Run result =
      run({discard(a, 1), offload(weight, 1, 1), prefetch(weight, 2, 2), recompute(a, 2)});
  EXPECT_EQ(result.stall_by_cause_ns.at(kStallRead), 100);
  EXPECT_EQ(result.replays[0].start_ns, 2200);
  EXPECT_EQ(result.step_ns, 2350);
  EXPECT_EQ(stall_of_ops(result, builder.trace()), (std::vector<int64_t>{0, 0, 100}));
}

TEST_F(ReplayTest, WhatFollowsItInTheFileIsIssuedWhenItHasEnded) {
  const trace::TensorIndex other = builder.persistent(10);
  builder.op(500, {.reads = {other}});
  const std::vector<plan::Migration> before = {discard(a, 1), offload(other, 1, 1)};
  std::vector<plan::Migration> plan = before;
  plan.insert(plan.end(), {prefetch(other, 2, 3), recompute(a, 2)});
  EXPECT_EQ(run(plan).transfers[1].issue_ns, 2100);
  plan = before;
  plan.insert(plan.end(), {recompute(a, 2), prefetch(other, 2, 3)});
  EXPECT_EQ(run(plan).transfers[1].issue_ns, 2200);
}

TEST_F(ReplayTest, AChainRunsInTheOrderOfTheFile) {
  TraceBuilder chain;
  const trace::TensorIndex x = chain.transient(1000);
  const trace::TensorIndex y = chain.transient(400);
  chain.op(100, {.writes = {x}, .replayable = true});
  chain.op(30, {.reads = {x}, .writes = {y}, .replayable = true});
  chain.op(2000, {.workspace_bytes = 1500});
  chain.op(50, {.reads = {y}});
  chain.op(50, {.reads = {x}});
  builder = chain;
  const std::vector<plan::Migration> leave = {discard(x, 2), discard(y, 2)};
  std::vector<plan::Migration> plan = leave;
  plan.insert(plan.end(), {recompute(x, 3), recompute(y, 3)});
  const simulate::Run result = run(plan);
  EXPECT_EQ(result.replays,
            (std::vector<ReplayRecord>{{0, 3, 2130, 2230, 0, {x}}, {1, 3, 2230, 2260, 0, {y}}}));
  EXPECT_EQ(result.step_ns, 2230 + 130);
  EXPECT_EQ(result.device_peak_bytes, 1500);
  plan = leave;
  plan.insert(plan.end(), {recompute(y, 3), recompute(x, 3)});
  EXPECT_THAT(failure(plan), StartsWith("input-discarded: migrations[2]"));
}

// x is freed by the program, and is made again for y alone.
TEST_F(ReplayTest, AFreedInputIsATemporary) {
  TraceBuilder chain;
  const trace::TensorIndex x = chain.transient(1000);
  const trace::TensorIndex y = chain.transient(400);
  chain.op(100, {.writes = {x}, .replayable = true});
  chain.op(30, {.reads = {x}, .writes = {y}, .frees = {x}, .replayable = true});
  chain.op(2000, {.workspace_bytes = 1500});
  chain.op(50, {.reads = {y}, .workspace_bytes = 1100});
  builder = chain;
  const simulate::Run result = run({discard(y, 2), recompute(x, 3), recompute(y, 3)});
  EXPECT_EQ(result.replay_ns, 130);
  EXPECT_EQ(result.op_start_ns.back(), 2260) << "x has left when op 3 needs its workspace";
  EXPECT_EQ(result.replays[0].temporary_bytes, 1000);
  EXPECT_EQ(result.replays[0].temporary_end_ns, 2260);
  EXPECT_THAT(failure({discard(y, 2), recompute(y, 3)}), StartsWith("input-freed"));
}

// The replay of w between those of y and z does not read x, which cannot move meanwhile.
TEST_F(ReplayTest, ATemporaryIsInUseUntilTheLastReplayThatReadsIt) {
  TraceBuilder chain;
  const trace::TensorIndex x = chain.transient(1000);
  const trace::TensorIndex y = chain.transient(400);
  const trace::TensorIndex z = chain.transient(400);
  const trace::TensorIndex w = chain.transient(400);
  chain.op(100, {.writes = {x}, .replayable = true});
  chain.op(30, {.reads = {x}, .writes = {y}, .replayable = true});
  chain.op(30, {.reads = {x}, .writes = {z}, .frees = {x}, .replayable = true});
  chain.op(30, {.writes = {w}, .replayable = true});
  chain.op(2000, {.workspace_bytes = 1500});
  chain.op(50, {.reads = {y, z, w}});
  const trace::Trace& trace = chain.trace();
  const plan::Plan plan{"test",
                        {discard(y, 4), discard(z, 4), discard(w, 4), recompute(x, 5),
                         recompute(y, 5), recompute(w, 5), recompute(z, 5)}};
  const std::optional<ReplayedTrace> replayed = replay_trace(trace, trace::TraceIndex(trace), plan);
  ASSERT_TRUE(replayed.has_value());
  const trace::TensorIndex temporary = replayed->steps[5].temporary;
  EXPECT_EQ(replayed->trace.ops[7].reads, (std::vector<trace::TensorIndex>{temporary}));
  EXPECT_THAT(replayed->trace.ops[9].reads, ::testing::Not(::testing::Contains(temporary)));
}

// The replay of the first op makes a, needs room for s, which nobody wants, and for its workspace.
TEST_F(ReplayTest, ScratchAndWorkspaceTakeMemoryAgain) {
  TraceBuilder two;
  a = two.transient(1000);
  const trace::TensorIndex s = two.transient(300);
  const trace::TensorIndex late = two.transient(200);
  two.op(100, {.writes = {a, s}, .frees = {s}, .workspace_bytes = 50, .replayable = true});
  two.op(1000, {.writes = {late}, .workspace_bytes = 1000});
  two.op(50, {.reads = {a, late}});
  builder = two;
  limits.device_budget_bytes = 1550;
  const simulate::Run result = run({discard(a, 1), recompute(a, 2)});
  EXPECT_EQ(result.device_peak_bytes, 1000 + 300 + 50 + 200);
  EXPECT_EQ(result.replays[0].workspace_bytes, 350);
  limits.device_budget_bytes = 1549;
  EXPECT_THAT(failure({discard(a, 1), recompute(a, 2)}),
              StartsWith("device memory: the replay of op 0 (op0) before op 2 needs 1550 bytes"));
}

TEST_F(ReplayTest, ItWaitsForRoom) {
  TraceBuilder crowded;
  const trace::TensorIndex other = crowded.persistent(600);
  const trace::TensorIndex late = crowded.transient(300);
  a = crowded.transient(1000);
  crowded.op(100, {.writes = {a}, .replayable = true});
  crowded.op(2000, {.writes = {late}, .workspace_bytes = 700});
  crowded.op(50, {.reads = {a, late}, .frees = {a, late}});
  crowded.op(700, {.reads = {other}});
  builder = crowded;
  limits.device_budget_bytes = 1600;
  const simulate::Run result =
      run({discard(a, 1), offload(other, 2, 2), recompute(a, 2), prefetch(other, 3, 3)});
  EXPECT_EQ(result.replays[0].start_ns, 2100 + 600);
  EXPECT_EQ(result.stall_by_cause_ns.at(kStallMemory), 600);
}

TEST_F(ReplayTest, AnEarlyFreeIsADiscardWithoutAReplay) {
  const trace::OpIndex last = builder.op(10, {.frees = {a}, .workspace_bytes = 1400});
  EXPECT_THAT(failure({discard(a, 1), recompute(a, 2)}), StartsWith("device memory: op 3"));
  const simulate::Run result = run({discard(a, 1), recompute(a, 2), discard(a, last)});
  EXPECT_EQ(result.device_peak_bytes, 1500);
}

TEST_F(ReplayTest, MovesOnTheReplayedTraceComeBackToTheOriginal) {
  const trace::Trace& trace = builder.trace();
  const plan::Plan plan{"test",
                        {discard(a, 1), offload(weight, 1, 1), prefetch(weight, 2, 2),
                         recompute(a, 2), offload(a, 2, 2), prefetch(a, 2, 2)}};
  const std::optional<ReplayedTrace> replayed = replay_trace(trace, trace::TraceIndex(trace), plan);
  ASSERT_TRUE(replayed.has_value());
  EXPECT_EQ(replayed->trace.ops.size(), 4);
  EXPECT_EQ(replayed->trace.ops[0].frees, (std::vector<trace::TensorIndex>{a}));
  EXPECT_EQ(replayed->original, (std::vector<trace::TensorIndex>{weight, a, a}));
  const plan::Plan moves = moves_on(*replayed, plan);
  EXPECT_EQ(moves.migrations[2], offload(2, 3, 3));
  EXPECT_EQ(with_moves(*replayed, plan, moves), plan);
}

TEST_F(ReplayTest, TheTimelineShowsReplaysAndTheirMemory) {
  const simulate::Run result = run({discard(a, 1), recompute(a, 2)});
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "timeline.json";
  ASSERT_TRUE(write_timeline(result, builder.trace(), path).ok());
  const auto events = nlohmann::json::parse(*read_text_file(path))["traceEvents"];
  std::map<double, int64_t> levels;
  bool shows_replay = false;
  for (const auto& event : events) {
    if (event["name"] == "device memory") levels[event["ts"]] = event["args"]["bytes"];
    shows_replay |= event["name"] == "replay of op0" && event["tid"] == 8 && event["ts"] == 2.1 &&
                    event["dur"] == 0.1;
  }
  EXPECT_TRUE(shows_replay);
  EXPECT_EQ(levels, (std::map<double, int64_t>{
                        {0, 1100}, {0.1, 1100}, {2.1, 1100}, {2.2, 1100}, {2.25, 100}}));
  EXPECT_THAT(run_json(result), HasSubstr("\"replay_ns\": 100"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace teraio::simulate
