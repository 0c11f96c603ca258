#include "planner/policies/algorithm1.h"

#include "planner/selection.h"

namespace teraio::planner {
namespace {

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

}  // namespace

Result<PlanBuilder> build_by_algorithm1(const Problem& problem,
                                        const std::function<void(const Round&)>& observe) {
  PlanBuilderOptions options;
  options.clean_copies = false;
  options.early_writes = false;
  options.op_ns = problem.op_ns();
  PlanBuilder builder(problem, std::move(options));
  select_in_time(builder, 0, 0, [&](const Candidate& candidate) {
    if (observe) observe(round_of(problem, candidate));
  });
  TERAIO_RETURN_IF_ERROR(select_to_fit(builder, 0));
  return builder;
}

Result<plan::Plan> plan_algorithm1(const trace::Trace& trace, const hardware::Hardware& hardware,
                                   const plan::Limits& limits,
                                   const std::function<void(const Round&)>& observe) {
  return solve_problem<plan::Plan>(
      trace, hardware, limits, [&](const Problem& problem) -> Result<plan::Plan> {
        const Result<PlanBuilder> builder = build_by_algorithm1(problem, observe);
        if (!builder.ok()) return builder.status();
        return plan_of(*builder);
      });
}

}  // namespace teraio::planner
