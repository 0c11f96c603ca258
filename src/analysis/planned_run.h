// planned_run(): what a training step does on a machine when it is planned for.
#pragma once

#include "analysis/machine_config.h"
#include "base/status.h"
#include "planner/planner.h"
#include "simulate/run.h"
#include "trace/trace.h"

namespace teraio::analysis {

// Plans, validates the plan and simulates it, as `teraio plan` and `teraio simulate` do. Fails as
// plan() does. Any thread may call it; with Effort::kBest it uses two.
Result<simulate::Run> planned_run(const trace::Trace& trace, const MachineConfig& machine,
                                  const planner::PlannerOptions& options);

}  // namespace teraio::analysis
