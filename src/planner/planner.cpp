#include "planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/baselines.h"
#include "planner/min_write_set.h"
#include "planner/plan_builder.h"
#include "planner/search.h"
#include "planner/selection.h"
#include "simulate/simulator.h"
#include "trace/trace_file.h"

namespace teraio::planner {
namespace {

int64_t largest(const std::vector<int64_t>& bytes) {
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

bool all_fits(const Problem& problem) {
  return largest(problem.lifetimes.footprint_bytes) <= problem.budget_bytes();
}

Status check_fits(const Problem& problem) {
  const std::vector<int64_t>& active = problem.lifetimes.active_bytes;
  const int64_t needed = largest(active);
  if (needed <= problem.budget_bytes()) return Status();
  const size_t op = std::max_element(active.begin(), active.end()) - active.begin();
  return Status(
      ErrorCode::kOutOfMemory,
      fmt::format("op {} ({}) needs {} bytes at once, the device budget is {}; the least "
                  "budget that would do is {}",
                  op, problem.trace.ops[op].name, needed, problem.budget_bytes(), needed));
}

// What `solve` makes of the inputs when they are valid and every op can fit.
template <typename Solve>
auto with_problem(const trace::Trace& trace, const hardware::Hardware& hardware,
                  const plan::Limits& limits, Solve solve)
    -> decltype(solve(std::declval<const Problem&>())) {
  TERAIO_RETURN_IF_ERROR(validate(trace).with_context(trace.name));
  TERAIO_RETURN_IF_ERROR(validate(hardware).with_context(hardware.name));
  const trace::TraceIndex index(trace);
  const trace::Lifetimes lifetimes = lifetimes_of(index, limits.smallest_tensor_bytes);
  const Problem problem{trace, index, lifetimes, hardware, limits};
  TERAIO_RETURN_IF_ERROR(check_fits(problem));
  return solve(problem);
}

Round round_of(const Problem& problem, const Candidate& candidate) {
  const trace::InactivePeriod& period = problem.lifetimes.periods[candidate.period];
  const int64_t count = problem.op_count();
  return {period.tensor,
          static_cast<trace::OpIndex>(period.first % count),
          static_cast<trace::OpIndex>(period.deadline() % count),
          candidate.tier,
          candidate.benefit,
          candidate.cost};
}

Result<plan::Plan> plan_algorithm1(const Problem& problem,
                                   const std::function<void(const Round&)>& observe) {
  PlanBuilderOptions options;
  options.clean_copies = false;
  options.early_writes = false;
  options.op_ns = problem.op_ns();
  PlanBuilder builder(problem, options);
  select_in_time(builder, 0, [&](const Candidate& candidate) {
    if (observe) observe(round_of(problem, candidate));
  });
  TERAIO_RETURN_IF_ERROR(select_to_fit(builder, 0));
  return plan_of(builder);
}

bool moves_smaller_than(const plan::Plan& plan, const trace::Trace& trace, int64_t size_bytes) {
  return std::any_of(plan.migrations.begin(), plan.migrations.end(), [&](const plan::Migration& m) {
    return trace.tensors[m.tensor].size_bytes < size_bytes;
  });
}

// Where there is next to nothing to choose, paging may be as good as planning, or better by chance.
Result<plan::Plan> better_of_paging_and(Result<plan::Plan> ours, const Problem& problem) {
  const Result<plan::Plan> paging =
      plan_baseline(Baseline::kOnDemandFarthest, problem.trace, problem.hardware, problem.limits);
  if (!paging.ok()) return ours;
  if (moves_smaller_than(*paging, problem.trace, problem.limits.smallest_tensor_bytes)) return ours;
  const simulate::Simulator simulator(problem.trace, problem.hardware, problem.limits);
  const Result<simulate::Run> run = simulator.run(*paging);
  if (!run.ok()) return ours;
  return ours.ok() && simulator.run(*ours)->step_ns <= run->step_ns ? ours : paging;
}

}  // namespace

int64_t min_device_budget_bytes(const trace::Trace& trace, const plan::Limits& limits) {
  return largest(lifetimes_of(trace, limits.smallest_tensor_bytes).active_bytes);
}

Result<plan::Plan> plan(const trace::Trace& trace, const hardware::Hardware& hardware,
                        const plan::Limits& limits, const PlannerOptions& options) {
  return with_problem(trace, hardware, limits, [&](const Problem& problem) -> Result<plan::Plan> {
    if (all_fits(problem)) return plan::Plan{trace.name, {}};
    if (options.policy == Policy::kAlgorithm1) return plan_algorithm1(problem, {});
    return better_of_paging_and(search_plan(problem, options), problem);
  });
}

Result<plan::Plan> plan_algorithm1(const trace::Trace& trace, const hardware::Hardware& hardware,
                                   const plan::Limits& limits,
                                   const std::function<void(const Round&)>& observe) {
  return with_problem(trace, hardware, limits, [&](const Problem& problem) -> Result<plan::Plan> {
    return plan_algorithm1(problem, observe);
  });
}

Result<int64_t> min_write_budget_bytes(const trace::Trace& trace,
                                       const hardware::Hardware& hardware,
                                       const plan::Limits& limits) {
  return with_problem(trace, hardware, limits, [&](const Problem& problem) -> Result<int64_t> {
    if (all_fits(problem)) return 0;
    const Result<MinWriteSet> write_set = find_min_write_set(problem);
    if (!write_set.ok()) return write_set.status();
    return write_set->ssd_bytes_written;
  });
}

}  // namespace teraio::planner
