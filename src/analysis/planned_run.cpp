#include "analysis/planned_run.h"

#include "plan/validator.h"
#include "simulate/simulator.h"

namespace teraio::analysis {

Result<simulate::Run> planned_run(const trace::Trace& trace, const MachineConfig& machine,
                                  const planner::PlannerOptions& options) {
  const Result<plan::Plan> plan = planner::plan(trace, machine.hardware, machine.limits, options);
  if (!plan.ok()) return plan.status();
  return run_of_plan(trace, machine, *plan);
}

Result<simulate::Run> run_of_plan(const trace::Trace& trace, const MachineConfig& machine,
                                  const plan::Plan& plan) {
  TERAIO_RETURN_IF_ERROR(validate_plan(plan, trace, machine.hardware, machine.limits));
  return simulate::simulate(trace, machine.hardware, machine.limits, plan);
}

}  // namespace teraio::analysis
