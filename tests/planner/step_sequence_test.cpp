// Steps of several patterns one after the other, on generated traces and machines: what joins them
// is legal, and can be executed.
#include "simulate/step_sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/validator.h"
#include "planner/planner.h"
#include "simulate/simulator.h"
#include "testing/generated_trace.h"
#include "trace/trace_file.h"

namespace teraio::planner {
namespace {

// The forward half of a step: it reads persistent tensors and writes none.
trace::Trace evaluation_of(trace::Trace trace) {
  trace.ops.resize((trace.ops.size() + 1) / 2);
  for (trace::Op& op : trace.ops) {
    const auto persistent = std::stable_partition(
        op.writes.begin(), op.writes.end(),
        [&](trace::TensorIndex tensor) { return !trace.tensors[tensor].persistent; });
    op.reads.insert(op.reads.end(), persistent, op.writes.end());
    op.writes.erase(persistent, op.writes.end());
  }
  return trace;
}

// A step of half the size.
trace::Trace smaller(trace::Trace trace) {
  for (trace::Tensor& tensor : trace.tensors)
    if (!tensor.persistent) tensor.size_bytes = (tensor.size_bytes + 1) / 2;
  for (trace::Op& op : trace.ops) {
    op.duration_ns /= 2;
    op.workspace_bytes /= 2;
  }
  return trace;
}

struct Planned {
  trace::Trace trace;
  plan::Plan plan;
  teraio::simulate::Run run;
};

class StepSequences : public ::testing::TestWithParam<uint64_t> {
 protected:
  StepSequences() {
    const uint64_t seed = GetParam();
    testing::Random random(seed);
    testing::GeneratedTraceOptions options;
    options.op_count = random.scaled(4, 100);
    options.persistent_count = random.between(1, 12);
    const trace::Trace whole = testing::generated_trace(seed, options);
    hardware = testing::generated_hardware(seed, whole);
    const Recompute recompute = random.chance(0.5) ? Recompute::kAll : Recompute::kOff;
    const trace::Trace evaluation = evaluation_of(whole);
    hardware.device_memory_bytes =
        std::max(hardware.device_memory_bytes, min_device_budget_bytes(evaluation, {}));
    for (const trace::Trace& trace : {whole, smaller(whole), evaluation}) add(trace, recompute);
  }

  void add(const trace::Trace& trace, Recompute recompute) {
    ASSERT_TRUE(validate(trace).ok()) << validate(trace).message();
    const Result<plan::Plan> plan = planner::plan(trace, hardware, {}, {.recompute = recompute});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const Result<teraio::simulate::Run> run = simulate::simulate(trace, hardware, {}, *plan);
    ASSERT_TRUE(run.ok()) << run.status().message();
    patterns.push_back({trace, *plan, *run});
  }

  simulate::StepSequence joined(const std::vector<size_t>& order) const {
    std::vector<simulate::PlannedStep> steps;
    for (size_t i : order) steps.push_back({patterns[i].trace, patterns[i].plan, patterns[i].run});
    return join_steps(steps, hardware, {});
  }

  hardware::Hardware hardware;
  std::vector<Planned> patterns;
};

TEST_P(StepSequences, AnyOrderIsLegalAndRuns) {
  testing::Random random(GetParam());
  for (int round = 0; round < 4; ++round) {
    std::vector<size_t> order(2 + round);
    for (size_t& i : order) i = random.next() % patterns.size();
    const simulate::StepSequence sequence = joined(order);
    ASSERT_TRUE(validate(sequence.trace).ok()) << validate(sequence.trace).message();
    const Status valid = validate_plan(sequence.plan, sequence.trace, hardware, {});
    if (valid.message().starts_with("SSD capacity") || valid.message().starts_with("host capacity"))
      continue;  // generated tiers have little room beside one plan's copies
    EXPECT_TRUE(valid.ok()) << valid.message();
    const Result<teraio::simulate::Run> run =
        simulate::simulate(sequence.trace, hardware, {}, sequence.plan);
    EXPECT_TRUE(run.ok()) << run.status().message();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, StepSequences, ::testing::Range<uint64_t>(0, 100));

}  // namespace
}  // namespace teraio::planner
