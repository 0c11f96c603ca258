// What moves between two steps whose plans expect tensors in other places, on traces in round
// numbers: the drive moves 1 byte per ns each way.
#include "simulate/step_sequence.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "plan/validator.h"
#include "simulate/joined_trace.h"
#include "simulate/scenario.h"
#include "simulate/simulator.h"

namespace teraio::simulate {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Texts = std::vector<std::string>;

// A pattern with its plan and how that executes in steady state.
struct Pattern {
  trace::Trace trace;
  plan::Plan plan;
  simulate::Run run;
};

class StepSequenceTest : public ::testing::Test {
 protected:
  Pattern pattern(const TraceBuilder& builder, const std::vector<plan::Migration>& migrations) {
    const plan::Plan plan{"test", migrations};
    const Result<simulate::Run> run = simulate(builder.trace(), hardware, {}, plan);
    EXPECT_TRUE(run.ok()) << run.status().message();
    return {builder.trace(), plan, run.ok() ? *run : simulate::Run()};
  }

  // The migrations of the steps in the order of their triggers, as in "offload 0 at 1 for 2". The
  // validator accepts them. Sets `run`.
  Texts joined(const std::vector<const Pattern*>& patterns) {
    std::vector<PlannedStep> steps;
    for (const Pattern* p : patterns) steps.push_back({p->trace, p->plan, p->run});
    StepSequence sequence = join_steps(steps, hardware, {});
    const Status valid = validate_plan(sequence.plan, sequence.trace, hardware, {});
    EXPECT_TRUE(valid.ok()) << valid.message();
    const Result<simulate::Run> result = simulate(sequence.trace, hardware, {}, sequence.plan);
    EXPECT_TRUE(result.ok()) << result.status().message();
    if (result.ok()) run = *result;
    return texts(sequence.plan.migrations);
  }

  static Texts texts(std::vector<plan::Migration> migrations) {
    std::ranges::stable_sort(migrations, {}, &plan::Migration::trigger_op);
    Texts texts;
    for (const plan::Migration& m : migrations)
      texts.push_back(fmt::format("{} {} at {} for {}{}", to_string(m.action), m.tensor,
                                  m.trigger_op, m.deadline_op,
                                  m.tier == plan::Tier::kHost ? " on host" : ""));
    return texts;
  }

  hardware::Hardware hardware = round_machine(2000, 10'000);
  simulate::Run run;
};

// A weight that op 1 writes and op 3 leaves no room for. It is read back early in the next step
// (`late`), or at the end of the same one (`early`). In the third pattern everything fits.
class WeightTest : public StepSequenceTest {
 protected:
  WeightTest() {
    late = pattern(with_workspace(1500), {offload(weight, 2, 3), prefetch(weight, 1, 1)});
    early = pattern(with_workspace(1500), {offload(weight, 2, 3), prefetch(weight, 4, 1)});
    roomy = pattern(with_workspace(0), {});
  }

  TraceBuilder with_workspace(int64_t workspace_bytes) {
    TraceBuilder builder;
    weight = builder.persistent(1000);
    builder.op(100);
    builder.op(100, {.writes = {weight}});
    builder.op(2000);
    builder.op(100, {.workspace_bytes = workspace_bytes});
    builder.op(2000);
    return builder;
  }

  trace::TensorIndex weight = 0;
  Pattern late, early, roomy;
};

TEST_F(WeightTest, StepsOfOnePatternAreItsSteadyState) {
  for (const Pattern* p : {&late, &early, &roomy}) {
    EXPECT_EQ(joined({p, p, p}).size(), 3 * p->plan.migrations.size());
    EXPECT_EQ(run.step_ns, 3 * p->run.step_ns);
  }
}

TEST_F(WeightTest, APrefetchAcrossTheEndIsForTheNextStepsUse) {
  EXPECT_THAT(joined({&early, &early}),
              ElementsAre("offload 0 at 2 for 3", "prefetch 0 at 4 for 6", "offload 0 at 7 for 8",
                          "prefetch 0 at 9 for 1"));
}

TEST_F(WeightTest, ATensorMovesToWhereTheNextPlanExpectsIt) {
  EXPECT_THAT(joined({&late, &roomy}),
              ElementsAre("offload 0 at 0 for 0", "prefetch 0 at 1 for 1", "offload 0 at 2 for 3",
                          "prefetch 0 at 5 for 6"));
  EXPECT_EQ(late.run.stall_ns, 1000) << "op 1 waits for the read";
  EXPECT_EQ(run.stall_ns, 1900 + 900) << "op 1 for the write and the read, op 6 for the read";
}

TEST_F(WeightTest, AReadAcrossTheEndGoesOnForAPlanThatExpectsIt) {
  EXPECT_THAT(joined({&early, &roomy}),
              ElementsAre("offload 0 at 2 for 3", "prefetch 0 at 4 for 6"));
  EXPECT_EQ(run.stall_ns, 0);
}

TEST_F(WeightTest, AReadAcrossTheEndIsLeftOutForAPlanThatExpectsTheTensorOffloaded) {
  EXPECT_THAT(joined({&early, &late}),
              ElementsAre("prefetch 0 at 0 for 1", "offload 0 at 2 for 3", "prefetch 0 at 6 for 6",
                          "offload 0 at 7 for 8"));
}

// The second pattern only reads the weight, as an evaluation does.
class CopyTest : public WeightTest {
 protected:
  Pattern reading(plan::Tier tier) {
    TraceBuilder builder;
    builder.op(100, {.reads = {builder.persistent(1000)}});
    builder.op(2000, {.workspace_bytes = 1500});
    return pattern(builder, {drop(weight, 1, 1, tier), prefetch(weight, 0, 0, tier)});
  }
};

TEST_F(CopyTest, ADropAfterAnotherPatternsWriteIsAnOffload) {
  const Pattern reads = reading(plan::Tier::kSsd);
  EXPECT_THAT(joined({&early, &reads, &reads}),
              ElementsAre("prefetch 0 at 0 for 1", "offload 0 at 2 for 3", "prefetch 0 at 5 for 5",
                          "drop 0 at 6 for 6", "prefetch 0 at 7 for 7", "drop 0 at 8 for 8"));
  EXPECT_THAT(joined({&roomy, &reads, &reads}),
              ElementsAre("prefetch 0 at 0 for 1", "offload 0 at 5 for 5", "prefetch 0 at 5 for 5",
                          "drop 0 at 6 for 6", "prefetch 0 at 7 for 7", "drop 0 at 8 for 8"));
}

TEST_F(CopyTest, ACopyOnAnotherTierIsReadFromThere) {
  const Pattern reads = reading(plan::Tier::kHost);
  EXPECT_THAT(joined({&late, &reads}), ElementsAre("prefetch 0 at 1 for 1", "offload 0 at 2 for 3",
                                                   "prefetch 0 at 5 for 5", "drop 0 at 6 for 6"));
}

// The third pattern has the weight resident at the end and drops it without a write of its own.
TEST_F(CopyTest, ADropWithoutACopyWritesOne) {
  TraceBuilder builder;
  builder.op(100, {.reads = {builder.persistent(1000)}});
  builder.op(2000, {.workspace_bytes = 1500});
  builder.op(2000);
  const Pattern reads = pattern(builder, {drop(weight, 1, 1), prefetch(weight, 2, 0)});
  EXPECT_THAT(joined({&roomy, &reads, &reads}),
              ElementsAre("offload 0 at 6 for 6", "prefetch 0 at 7 for 8", "drop 0 at 9 for 9",
                          "prefetch 0 at 10 for 1"));
}

// A replay near the end of a step reads the weight, which no op uses any more.
TEST_F(WeightTest, AReadForAReplayIsNotLeftOut) {
  TraceBuilder builder;
  builder.persistent(1000);
  const trace::TensorIndex activation = builder.transient(500);
  builder.op(100, {.reads = {weight}, .writes = {activation}, .replayable = true});
  builder.op(2000, {.workspace_bytes = 1500});
  builder.op(100, {.reads = {activation}});
  const Pattern replaying = pattern(builder, {discard(activation, 1), drop(weight, 1, 1),
                                              prefetch(weight, 2, 2), recompute(activation, 2)});
  EXPECT_THAT(joined({&replaying, &late}),
              ElementsAre("prefetch 0 at 0 for 0", "discard 1 at 1 for 1", "drop 0 at 1 for 1",
                          "prefetch 0 at 2 for 2", "recompute 1 at 2 for 2", "drop 0 at 3 for 3",
                          "prefetch 0 at 4 for 4", "offload 0 at 5 for 6"));
}

// A second tensor, which only one of the patterns uses.
class OtherTensorTest : public StepSequenceTest {
 protected:
  OtherTensorTest() {
    TraceBuilder builder;
    const trace::TensorIndex weight = builder.persistent(1000);
    const trace::TensorIndex state = builder.persistent(900);
    builder.op(100, {.reads = {weight}, .writes = {state}});
    training = pattern(builder, {});
  }
  Pattern evaluation(int64_t workspace_bytes) {
    TraceBuilder builder;
    builder.op(5000, {.reads = {builder.persistent(1000)}, .workspace_bytes = workspace_bytes});
    return pattern(builder, {});
  }
  Pattern training;
};

TEST_F(OtherTensorTest, StaysWhereThereIsRoom) {
  const Pattern other = evaluation(100);
  EXPECT_THAT(joined({&training, &other}), IsEmpty());
  EXPECT_EQ(run.device_peak_bytes, 2000);
}

TEST_F(OtherTensorTest, LeavesForThePlanThatNeedsItsRoom) {
  const Pattern other = evaluation(101);
  EXPECT_THAT(joined({&training, &other}),
              ElementsAre("prefetch 0 at 0 for 0", "offload 0 at 1 for 1"));
  EXPECT_EQ(run.stall_ns, 900 + 900);
}

trace::Trace of_tensors(const std::vector<trace::Tensor>& tensors) {
  return {"test", "modelled", tensors, {}};
}

TEST(JoinedTraces, TensorsAreKnownByNameAndSizeElseByIdAndSize) {
  const trace::Tensor named{1, 100, true, trace::TensorKind::kParameter, "weight"};
  const trace::Tensor unnamed{2, 100, true, trace::TensorKind::kOther, ""};
  const auto with = [](trace::Tensor tensor, int64_t id, int64_t size_bytes) {
    tensor.id = id;
    tensor.size_bytes = size_bytes;
    return of_tensors({tensor});
  };
  EXPECT_TRUE(share_tensors(of_tensors({named}), with(named, 9, 100)));
  EXPECT_FALSE(share_tensors(of_tensors({named}), with(named, 1, 101)));
  EXPECT_TRUE(share_tensors(of_tensors({unnamed}), with(unnamed, 2, 100)));
  EXPECT_FALSE(share_tensors(of_tensors({unnamed}), with(unnamed, 9, 100)));
}

TEST(JoinedTraces, TensorsOfOneNameAreMatchedInOrder) {
  const trace::Trace twice = of_tensors({{1, 100, true, trace::TensorKind::kOther, "0.weight"},
                                         {2, 100, true, trace::TensorKind::kOther, "0.weight"}});
  const std::array traces = {&twice, &twice};
  const JoinedTrace joined = join_traces(traces);
  EXPECT_EQ(joined.persistent_count, 2);
  EXPECT_EQ(joined.tensors[0], joined.tensors[1]);
}

TEST(JoinedTraces, OtherTensorsAndOpsAreThoseOfTheSteps) {
  TraceBuilder builder;
  const trace::TensorIndex activation = builder.transient(10);
  const trace::TensorIndex weight = builder.persistent(20);
  builder.op(5, {.reads = {weight}, .writes = {activation}, .frees = {activation}});
  const std::array traces = {&builder.trace(), &builder.trace()};
  const JoinedTrace joined = join_traces(traces);
  EXPECT_THAT(joined.first_op, ElementsAre(0, 1, 2));
  EXPECT_THAT(joined.trace.ops[0].writes, ElementsAre(1));
  EXPECT_THAT(joined.trace.ops[1].writes, ElementsAre(2));
  EXPECT_THAT(joined.trace.ops[1].reads, ElementsAre(0));
  EXPECT_TRUE(validate(joined.trace).ok());
}

}  // namespace
}  // namespace teraio::simulate
