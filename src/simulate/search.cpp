#include "simulate/search.h"

#include <optional>

#include "plan/search.h"
#include "simulate/simulator.h"

namespace teraio {
namespace {

Execution execution_of(const Trace& trace, const Run& run) {
  Execution execution{static_cast<double>(run.step_ns), {}};
  int64_t last_end_ns = 0;
  for (size_t k = 0; k < trace.ops.size(); ++k) {
    const int64_t end_ns = run.op_start_ns[k] + trace.ops[k].duration_ns;
    execution.stretched_ns.push_back(static_cast<double>(end_ns - last_end_ns));
    last_end_ns = end_ns;
  }
  return execution;
}

}  // namespace

Result<Plan> plan_by_simulation(const Trace& trace, const Hardware& hardware, const Limits& limits,
                                const PlannerOptions& options) {
  const Simulator simulator(trace, hardware, limits);
  return plan(trace, hardware, limits, options,
              [&](const Draft&, const Plan& plan) -> std::optional<Execution> {
                const Result<Run> run = simulator.run(plan);
                if (!run.ok()) return std::nullopt;
                return execution_of(trace, *run);
              });
}

}  // namespace teraio
