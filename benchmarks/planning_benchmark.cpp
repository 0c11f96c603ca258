// Measures the parts of planning on the traces of tests/data.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>

#include "plan/validator.h"
#include "planner/bounds.h"
#include "planner/planner.h"
#include "planner/policies/baselines.h"
#include "simulate/simulator.h"
#include "trace/trace_file.h"

namespace teraio {
namespace {

const std::string kTraces =
    std::filesystem::path(__FILE__).parent_path().parent_path() / "tests" / "data" / "traces" / "";

struct Case {
  Case(const char* trace_name, const char* hardware_name)
      : trace(*trace::read_trace(kTraces + trace_name + ".json.gz")),
        hardware(*hardware::read_hardware(kTraces + hardware_name + ".json")) {}
  trace::Trace trace;
  hardware::Hardware hardware;
  plan::Limits limits;
};

const Case& given(int64_t index) {
  static const Case cases[] = {{"VIT-1280", "a100_g10"}, {"l8", "h100_ssd"}, {"l70", "h100_ssd"}};
  return cases[index];
}

void read_a_trace(benchmark::State& state) {
  const char* names[] = {"VIT-1280", "l8", "l70"};
  const std::string path = kTraces + names[state.range(0)] + ".json.gz";
  for (auto _ : state) benchmark::DoNotOptimize(trace::read_trace(path).ok());
}
BENCHMARK(read_a_trace)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

// Like a search, indexes the trace only once.
void simulate_a_plan(benchmark::State& state) {
  const Case& c = given(state.range(0));
  const plan::Plan plan =
      *plan_baseline(planner::Baseline::kZeroInfinity, c.trace, c.hardware, c.limits);
  const simulate::Simulator simulator(c.trace, c.hardware, c.limits);
  for (auto _ : state) benchmark::DoNotOptimize(simulator.run(plan).ok());
  state.counters["migrations"] = static_cast<double>(plan.migrations.size());
}
BENCHMARK(simulate_a_plan)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

void validate_a_plan(benchmark::State& state) {
  const Case& c = given(state.range(0));
  const plan::Plan plan =
      *plan_baseline(planner::Baseline::kZeroInfinity, c.trace, c.hardware, c.limits);
  for (auto _ : state)
    benchmark::DoNotOptimize(validate_plan(plan, c.trace, c.hardware, c.limits).ok());
}
BENCHMARK(validate_a_plan)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

void bound_a_step(benchmark::State& state) {
  const Case& c = given(state.range(0));
  for (auto _ : state)
    benchmark::DoNotOptimize(planner::lower_bounds(c.trace, c.hardware, c.limits).best_ns());
}
BENCHMARK(bound_a_step)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

void page_on_demand(benchmark::State& state) {
  const Case& c = given(state.range(0));
  for (auto _ : state)
    benchmark::DoNotOptimize(
        plan_baseline(planner::Baseline::kOnDemandFarthest, c.trace, c.hardware, c.limits).ok());
}
BENCHMARK(page_on_demand)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

void plan_in_a_blink(benchmark::State& state) {
  const Case& c = given(state.range(0));
  const planner::PlannerOptions only_moves = {.recompute = planner::Recompute::kOff};
  for (auto _ : state)
    benchmark::DoNotOptimize(planner::plan(c.trace, c.hardware, c.limits, only_moves).ok());
}
BENCHMARK(plan_in_a_blink)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace teraio
