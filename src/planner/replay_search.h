// ReplaySearch: chooses what to discard and recompute, and plans the transfers beside it.
//
// A set of replays is chosen first and written into the trace, where a replay is an op and a tensor
// that is made again begins a new life. The planner that exists then plans the transfers of that
// trace, and the simulator tells which set is best:
//
//   sets of replays --> ReplayedTrace --> search_plan() --> simulator --> the best plan
//
// A plan without replays takes part, so that replays never make a plan slower. With a host tier,
// plans without the drives take part as well: they wear no drive, and are faster where both tiers
// wait for the same link.
#pragma once

#include <functional>

#include "base/status.h"
#include "plan/plan.h"
#include "planner/planner.h"
#include "planner/problem.h"

namespace teraio::planner {

// `move_only` returns the best plan without replays for the given options. Returns the plan that
// options.prefer asks for. With Effort::kFast a few sets are tried; with Effort::kBest more of
// them, also on the timelines of the best plans, and the best ones are searched as search_plan()
// does. Fails as move_only() when no plan is found. Uses two threads. Pure except for the time
// limit.
Result<plan::Plan> search_replays(
    const Problem& problem, const PlannerOptions& options,
    const std::function<Result<plan::Plan>(const PlannerOptions&)>& move_only);

}  // namespace teraio::planner
