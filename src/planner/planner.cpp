#include "planner/planner.h"

#include <algorithm>
#include <utility>

#include "planner/min_write_set.h"
#include "planner/policies/algorithm1.h"
#include "planner/policies/baselines.h"
#include "planner/problem.h"
#include "planner/replay_search.h"
#include "planner/search.h"
#include "planner/selection.h"
#include "simulate/simulator.h"

namespace teraio::planner {
namespace {

bool moves_smaller_than(const plan::Plan& plan, const trace::Trace& trace, int64_t size_bytes) {
  return std::any_of(plan.migrations.begin(), plan.migrations.end(), [&](const plan::Migration& m) {
    return trace.tensors[m.tensor].size_bytes < size_bytes;
  });
}

// Where there are few choices, on-demand paging can be as fast as a plan, or faster by chance.
Result<plan::Plan> better_of_paging_and(Result<plan::Plan> ours, const Problem& problem,
                                        Prefer prefer) {
  const Result<plan::Plan> paging =
      plan_baseline(Baseline::kOnDemandFarthest, problem.trace, problem.hardware, problem.limits);
  if (!paging.ok()) return ours;
  if (moves_smaller_than(*paging, problem.trace, problem.limits.smallest_tensor_bytes)) return ours;
  const simulate::Simulator simulator(problem.trace, problem.hardware, problem.limits);
  const Result<simulate::Run> run = simulator.run(*paging);
  if (!run.ok()) return ours;
  if (!ours.ok()) return paging;
  const double slack = prefer == Prefer::kWear ? kWearSlack : 1;
  const auto ours_ns = static_cast<double>(simulator.run(*ours)->step_ns);
  return ours_ns <= slack * static_cast<double>(run->step_ns) ? ours : paging;
}

}  // namespace

int64_t min_device_budget_bytes(const trace::Trace& trace, const plan::Limits& limits) {
  const trace::Lifetimes lifetimes = lifetimes_of(trace, limits.smallest_tensor_bytes);
  const std::vector<int64_t>& active = lifetimes.active_bytes;
  return active.empty() ? 0 : *std::max_element(active.begin(), active.end());
}

int64_t time_limit_ns(const PlannerOptions& options, const trace::Trace& trace) {
  const int64_t default_ns = trace.ops.size() <= 10'000 ? 10'000'000'000 : 60'000'000'000;
  return options.time_limit_ns.value_or(default_ns);
}

Result<plan::Plan> plan(const trace::Trace& trace, const hardware::Hardware& hardware,
                        const plan::Limits& limits, const PlannerOptions& options) {
  const auto solve = [&](const Problem& problem) -> Result<plan::Plan> {
    if (problem.everything_fits()) return plan::Plan{trace.name, {}};
    if (options.policy == Policy::kTeraio)
      return better_of_paging_and(search_replays(problem, options), problem, options.prefer);
    const Result<PlanBuilder> builder = build_by_algorithm1(problem);
    if (!builder.ok()) return builder.status();
    return plan_of(*builder);
  };
  return solve_problem<plan::Plan>(trace, hardware, limits, solve);
}

Result<int64_t> min_write_budget_bytes(const trace::Trace& trace,
                                       const hardware::Hardware& hardware,
                                       const plan::Limits& limits) {
  const auto solve = [](const Problem& problem) -> Result<int64_t> {
    if (problem.everything_fits()) return 0;
    const Result<MinWriteSet> write_set = find_min_write_set(problem);
    if (!write_set.ok()) return write_set.status();
    return write_set->ssd_bytes_written;
  };
  return solve_problem<int64_t>(trace, hardware, limits, solve);
}

}  // namespace teraio::planner
