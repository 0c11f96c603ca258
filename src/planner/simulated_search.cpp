#include "planner/simulated_search.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/policies.h"
#include "planner/search.h"
#include "simulate/simulator.h"

namespace teraio::planner {
namespace {

Execution execution_of(const trace::Trace& trace, const simulate::Run& run) {
  Execution execution{static_cast<double>(run.step_ns), {}};
  int64_t last_end_ns = 0;
  for (size_t k = 0; k < trace.ops.size(); ++k) {
    const int64_t end_ns = run.op_start_ns[k] + trace.ops[k].duration_ns;
    execution.stretched_ns.push_back(static_cast<double>(end_ns - last_end_ns));
    last_end_ns = end_ns;
  }
  return execution;
}

bool moves_smaller_than(const plan::Plan& plan, const trace::Trace& trace, int64_t size_bytes) {
  return std::any_of(plan.migrations.begin(), plan.migrations.end(), [&](const plan::Migration& m) {
    return trace.tensors[m.tensor].size_bytes < size_bytes;
  });
}

// Where there is next to nothing to choose, paging may be as good as planning, or better by chance.
Result<plan::Plan> better_of_paging_and(Result<plan::Plan> ours, const trace::Trace& trace,
                                        const hardware::Hardware& hardware,
                                        const plan::Limits& limits) {
  const simulate::Simulator simulator(trace, hardware, limits);
  const Result<plan::Plan> paging =
      plan_baseline(Baseline::kOnDemandFarthest, trace, hardware, limits);
  if (!paging.ok() || moves_smaller_than(*paging, trace, limits.smallest_tensor_bytes)) return ours;
  const Result<simulate::Run> run = simulator.run(*paging);
  if (!run.ok()) return ours;
  return ours.ok() && simulator.run(*ours)->step_ns <= run->step_ns ? ours : paging;
}

}  // namespace

Result<plan::Plan> plan_by_simulation(const trace::Trace& trace, const hardware::Hardware& hardware,
                                      const plan::Limits& limits, const PlannerOptions& options) {
  plan::Limits unlimited = limits;  // the search also looks at plans that write more
  unlimited.write_budget_bytes.reset();
  const simulate::Simulator simulator(trace, hardware, unlimited);
  Result<plan::Plan> ours =
      plan(trace, hardware, limits, options,
           [&](const Draft&, const plan::Plan& plan) -> std::optional<Execution> {
             const Result<simulate::Run> run = simulator.run(plan);
             if (!run.ok()) return std::nullopt;
             return execution_of(trace, *run);
           });
  if (options.policy != Policy::kTeraio || (ours.ok() && ours->migrations.empty())) return ours;
  return better_of_paging_and(std::move(ours), trace, hardware, limits);
}

}  // namespace teraio::planner
