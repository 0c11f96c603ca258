// planned_run(): predicts a training step on a machine under a plan.
#pragma once

#include "analysis/machine_config.h"
#include "base/status.h"
#include "planner/planner.h"
#include "simulate/run.h"
#include "trace/trace.h"

namespace teraio::analysis {

// Plans, validates the plan and simulates it, as `teraio plan` and `teraio simulate` do. Fails as
// plan() does. Any thread may call it; it uses two threads with Effort::kBest and under a write
// budget.
Result<simulate::Run> planned_run(const trace::Trace& trace, const MachineConfig& machine,
                                  const planner::PlannerOptions& options);

// The same under a plan that there is. Fails when it is not legal there.
Result<simulate::Run> run_of_plan(const trace::Trace& trace, const MachineConfig& machine,
                                  const plan::Plan& plan);

}  // namespace teraio::analysis
