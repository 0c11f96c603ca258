#include "analysis/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "simulate/run_file.h"
#include "simulate/scenario.h"
#include "simulate/simulator.h"

namespace teraio::analysis {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// One weight that is offloaded while an activation is made, used, and gone; then it is updated.
class StepTest : public ::testing::Test {
 protected:
  StepTest() {
    weight = builder.persistent(1000);
    activation = builder.transient(800);
    builder.op(100, {.writes = {activation}});
    builder.op(100, {.reads = {activation}});
    builder.op(100);
    builder.op(100, {.writes = {weight}});
    run = *simulate::simulate(builder.trace(), round_machine(1000), {},
                              {"test", {offload(weight, 0, 0), prefetch(weight, 2, 3)}});
  }
  TraceBuilder builder;
  trace::TensorIndex weight, activation;
  teraio::simulate::Run run;
};

TEST_F(StepTest, PhasesAreToldByMemoryAndUpdates) {
  const std::vector<Phase> phases = phases_of(builder.trace());
  EXPECT_EQ(phases, (std::vector<Phase>{{"forward", 0, 0}, {"backward", 1, 2}, {"update", 3, 3}}));
}

TEST(Phases, GradientsThatStayDoNotHideThem) {
  TraceBuilder builder;
  const trace::TensorIndex weight = builder.persistent(1000);
  const trace::TensorIndex first_gradient = builder.transient(5000, trace::TensorKind::kGradient);
  const trace::TensorIndex gradient = builder.transient(5000, trace::TensorKind::kGradient);
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    const trace::TensorIndex below = builder.transient(1000);
    const trace::TensorIndex above = builder.transient(1000);
    builder.op(100, {.reads = {weight}, .writes = {below}});
    builder.op(100, {.reads = {weight, below}, .writes = {above}});
    builder.op(100, {.reads = {above}, .writes = {first_gradient}});
    builder.op(100, {.reads = {below}, .writes = {gradient}});
  }
  builder.op(100, {.reads = {first_gradient, gradient}, .writes = {weight}});
  EXPECT_EQ(phases_of(builder.trace()), (std::vector<Phase>{{"forward", 0, 1},
                                                            {"backward", 2, 3},
                                                            {"forward", 4, 5},
                                                            {"backward", 6, 7},
                                                            {"update", 8, 8}}));
}

TEST(Phases, WhatAnOptimizerComputesBelongsToTheUpdate) {
  TraceBuilder builder;
  const trace::TensorIndex weight = builder.persistent(1000);
  const trace::TensorIndex gradient = builder.transient(1000, trace::TensorKind::kGradient);
  const trace::TensorIndex activation = builder.transient(2000);
  builder.op(100, {.reads = {weight}, .writes = {activation}});
  builder.op(100, {.reads = {activation, weight}, .writes = {gradient}});
  builder.op(100, {.writes = {gradient}});  // clipped
  for (int i = 0; i < 2; ++i) {
    const trace::TensorIndex root = builder.transient(100);
    builder.op(100, {.reads = {gradient}, .writes = {weight}});
    builder.op(100, {.reads = {gradient}, .writes = {root}});
    builder.op(100, {.reads = {root}});
  }
  EXPECT_EQ(phases_of(builder.trace()),
            (std::vector<Phase>{{"forward", 0, 0}, {"backward", 1, 2}, {"update", 3, 8}}));
}

TEST_F(StepTest, StallsAreSharedOutByPhase) {
  const std::vector<StallShare> shares = stall_by_phase(run, builder.trace());
  ASSERT_EQ(shares.size(), 3);
  EXPECT_EQ(shares[0], (StallShare{"forward", 100, 1000}));
  EXPECT_EQ(shares[0].stall_ns + shares[1].stall_ns + shares[2].stall_ns, run.stall_ns);
}

TEST_F(StepTest, StallsAreSharedOutByTransfer) {
  const std::vector<StallShare> shares = stall_by_transfer(run, builder.trace());
  ASSERT_EQ(shares.size(), 2);
  EXPECT_EQ(shares[0].what, "write of parameter to ssd");
  EXPECT_EQ(shares[1].what, "read of parameter from ssd");
  EXPECT_EQ(shares[0].stall_ns + shares[1].stall_ns, run.stall_ns);
}

TEST_F(StepTest, APlanIsBoundByWhatOpsWaitForMost) {
  EXPECT_THAT(binding_of(run, builder.trace(), round_machine(1000), {}),
              MatchesRegex("bound by writes to the drives: 1 us of waiting, .* % of the step; "
                           "one op needs nearly all device memory"));
  EXPECT_THAT(binding_of(run, builder.trace(), round_machine(2000), {}),
              Not(HasSubstr("one op needs")));
  run.stall_ns = 0;
  EXPECT_EQ(binding_of(run, builder.trace(), round_machine(1000), {}),
            "bound by compute: ops hardly wait");
}

TEST_F(StepTest, AFullHostTierBindsBesideTheDrives) {
  hardware::Hardware machine = round_machine(2000);
  machine.host.capacity_bytes = 100;
  machine.host.rates = {1, 1};
  run.host_peak_bytes = 100;
  EXPECT_THAT(binding_of(run, builder.trace(), machine, {}), HasSubstr("; host memory is full"));
  run.host_peak_bytes = 50;
  EXPECT_THAT(binding_of(run, builder.trace(), machine, {}), Not(HasSubstr("host memory")));
}

// The replay of op 0 waits for the weight's read; op 2 does not.
TEST(Replays, AreTimeOfTheirOwnBesideStalls) {
  TraceBuilder builder;
  const trace::TensorIndex weight = builder.persistent(1000);
  const trace::TensorIndex activation = builder.transient(800);
  builder.op(100, {.reads = {weight}, .writes = {activation}, .replayable = true});
  builder.op(2000, {.workspace_bytes = 1000});
  builder.op(50, {.reads = {activation}});
  const teraio::simulate::Run run =
      *simulate::simulate(builder.trace(), round_machine(2000), {},
                          {"test",
                           {discard(activation, 1), offload(weight, 1, 1), prefetch(weight, 2, 2),
                            recompute(activation, 2)}});
  const std::vector<StallShare> phases = stall_by_phase(run, builder.trace());
  int64_t replay_ns = 0;
  for (const StallShare& phase : phases) replay_ns += phase.replay_ns;
  EXPECT_EQ(replay_ns, 100);
  EXPECT_EQ(stall_by_transfer(run, builder.trace()),
            (std::vector<StallShare>{{"read of parameter from ssd", 0, 1000}}));
}

TEST_F(StepTest, JsonHasTheFieldsOfTheInterface) {
  const auto json = nlohmann::json::parse(run_json(run));
  for (const char* field :
       {"ideal_ns", "step_ns", "fraction_of_ideal", "stall_ns", "stall_by_cause",
        "ssd_bytes_written", "ssd_bytes_read", "host_bytes_written", "host_bytes_read",
        "device_peak_bytes", "host_peak_bytes", "ssd_peak_bytes"})
    EXPECT_TRUE(json.contains(field)) << field;
  EXPECT_EQ(json["step_ns"], run.step_ns);
  EXPECT_DOUBLE_EQ(json["fraction_of_ideal"], fraction_of_ideal(run));
}

TEST_F(StepTest, TimelineHasEveryOpStallAndTransfer) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("timeline-" + std::to_string(getpid()) + ".json.gz");
  ASSERT_TRUE(write_timeline(run, builder.trace(), path).ok());
  const auto events = nlohmann::json::parse(*read_text_file(path))["traceEvents"];
  std::filesystem::remove(path);
  int spans = 0;
  int64_t highest = 0;
  std::map<std::string, double> stall_us;
  for (const auto& event : events) {
    if (event["ph"] == "X") ++spans;
    if (event["ph"] == "X" && event["tid"] == 2)
      stall_us[event["args"]["cause"]] += event["dur"].get<double>();
    if (event["ph"] == "C") highest = std::max<int64_t>(highest, event["args"]["bytes"]);
    if (event.contains("ts")) EXPECT_GE(event["ts"], 0.0);
  }
  EXPECT_EQ(spans, 4 + 2 + 2);
  EXPECT_EQ(highest, run.device_peak_bytes);
  for (const auto& [cause, stall_ns] : run.stall_by_cause_ns)
    EXPECT_DOUBLE_EQ(stall_us[cause], static_cast<double>(stall_ns) / 1e3) << cause;
}

}  // namespace
}  // namespace teraio::analysis
