// What a change between two patterns takes, by hand: a drive moves 1 byte per ns each way.
#include "simulate/pattern_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "simulate/scenario.h"
#include "simulate/simulator.h"

namespace teraio::simulate {
namespace {

using namespace testing;
using ::testing::HasSubstr;

// A program with a weight of 1000 bytes. The short steps have room for it. The long ones offload it
// for op 3 and read it back in the next step, before op 1.
class PatternChangeTest : public ::testing::Test {
 protected:
  trace::Trace step_of(const std::string& weight_name, int64_t workspace_bytes) {
    TraceBuilder builder;
    const trace::TensorIndex weight = builder.persistent(1000);
    builder.op(100);
    builder.op(100, {.writes = {weight}});
    builder.op(2000);
    builder.op(100, {.workspace_bytes = workspace_bytes});
    trace::Trace trace = builder.trace();
    trace.tensors[weight].name = weight_name;
    return trace;
  }

  simulate::Run run_of(const trace::Trace& trace, const plan::Plan& plan) {
    const Result<simulate::Run> run = simulate(trace, hardware, {}, plan);
    EXPECT_TRUE(run.ok()) << run.status().message();
    return run.ok() ? *run : simulate::Run();
  }

  PatternChange change_to(const trace::Trace& other, const plan::Limits& limits = {}) {
    const simulate::Run other_run = run_of(other, long_plan);
    const std::vector<PlannedStep> steps = {{short_step, short_plan, short_run},
                                            {other, long_plan, other_run}};
    const std::vector<PatternChange> changes = pattern_changes(steps, hardware, limits);
    EXPECT_EQ(changes.size(), 1u);
    return changes.front();
  }

  hardware::Hardware hardware = round_machine(2000);
  const plan::Plan short_plan{"test", {}};
  const plan::Plan long_plan{"test", {offload(0, 2, 3), prefetch(0, 1, 1)}};
  const trace::Trace short_step = step_of("weight", 0);
  const trace::Trace long_step = step_of("weight", 1500);
  const simulate::Run short_run = run_of(short_step, short_plan);
  const simulate::Run long_run = run_of(long_step, long_plan);
};

// The first long step after a short one writes the weight before it reads it. The first short step
// after a long one reads it.
TEST_F(PatternChangeTest, CostsWhatMovesBesidesTheSteps) {
  const PatternChange change = change_to(long_step);
  ASSERT_TRUE(change.status.ok()) << change.status.message();
  EXPECT_EQ(change.cost.ssd_bytes_written, 1000);
  EXPECT_EQ(change.cost.ssd_bytes_read, 1000);
  EXPECT_EQ(change.cost.stall_by_cause_ns.at(kStallRead), 900);
  EXPECT_EQ(change.cost.stall_by_cause_ns.at(kStallWrite), 900);
  EXPECT_EQ(change.cost.step_ns, 1800);
  EXPECT_EQ(change.cost.ideal_ns, 0);
}

TEST_F(PatternChangeTest, PatternsWithTheSamePlacesCostNothing) {
  const std::vector<PlannedStep> steps = {{long_step, long_plan, long_run},
                                          {long_step, long_plan, long_run}};
  const simulate::Run cost = pattern_changes(steps, hardware, {}).front().cost;
  EXPECT_EQ(cost.step_ns, 0);
  EXPECT_EQ(cost.ssd_bytes_written, 0);
}

TEST_F(PatternChangeTest, TheWriteBudgetIsForAStep) {
  plan::Limits limits;
  limits.write_budget_bytes = 1000;
  EXPECT_TRUE(change_to(long_step, limits).status.ok());
}

TEST_F(PatternChangeTest, TracesOfDifferentProgramsHaveNoCost) {
  const PatternChange change = change_to(step_of("another", 1500));
  EXPECT_THAT(change.status.message(), HasSubstr("no persistent tensor in common"));
}

TEST_F(PatternChangeTest, EveryPairIsListed) {
  const std::vector<PlannedStep> steps(3, {short_step, short_plan, short_run});
  const std::vector<PatternChange> changes = pattern_changes(steps, hardware, {});
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[1].first, 0u);
  EXPECT_EQ(changes[1].second, 2u);
  EXPECT_EQ(changes[2].first, 1u);
}

// Of 16 steps drawn with 3/4 and 1/4, 3 change to a long one and 3 change back.
TEST_F(PatternChangeTest, RandomOrderHasChangesAsOftenAsTheProductOfTheShares) {
  const std::vector<PatternRun> patterns = {{"short", 3, short_run}, {"long", 1, long_run}};
  const std::vector<PatternChange> changes = {change_to(long_step)};
  const auto random = mean_run_in_random_order(patterns, changes);
  ASSERT_TRUE(random);
  const simulate::Run mean = mean_run(patterns);
  EXPECT_NEAR(random->step_ns, mean.step_ns + 3 * 1800 / 16.0, 1);
  EXPECT_EQ(random->ssd_bytes_written, 250 + 188);
  EXPECT_EQ(random->step_ns, random->ideal_ns + random->stall_ns);
}

TEST_F(PatternChangeTest, AnUnknownCostLeavesRandomOrderUnknown) {
  const std::vector<PatternRun> patterns = {{"short", 3, short_run}, {"long", 1, long_run}};
  const std::vector<PatternChange> changes = {change_to(step_of("another", 1500))};
  EXPECT_FALSE(mean_run_in_random_order(patterns, changes));
}

}  // namespace
}  // namespace teraio::simulate
