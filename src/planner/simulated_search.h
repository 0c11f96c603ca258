// plan() with every draft judged by the simulator, which is slower than the planner's forecast and
// knows all the rules.
#pragma once

#include "planner/planner.h"

namespace teraio::planner {

// As plan(), and never slower than paging on demand. What `teraio plan` and the dry run use.
Result<plan::Plan> plan_by_simulation(const trace::Trace& trace, const hardware::Hardware& hardware,
                                      const plan::Limits& limits,
                                      const PlannerOptions& options = {});

}  // namespace teraio::planner
