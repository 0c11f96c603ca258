// ReplaySearch: chooses what to discard and recompute, and plans the transfers beside it.
//
// A set of replays is chosen first and written into the trace, where a replay is an op and a tensor
// that is made again begins a new life. The planner that exists then plans the transfers of that
// trace, and the simulator tells which set is best:
//
//   sets of replays --> ReplayedTrace --> search_plan() --> simulator --> the best plan
//
// A plan without replays takes part, so that replays never make a plan slower.
#pragma once

#include "base/status.h"
#include "plan/plan.h"
#include "planner/planner.h"
#include "planner/problem.h"

namespace teraio::planner {

// Returns the plan that options.prefer asks for. All sets are planned by next use first, and the
// rounds of the search are spent on those that are then the fastest. Where channels idle beside the
// best plan, moves take the place of replays. With Effort::kFast the work is the same in every run,
// except that a write budget ends at the time limit; with Effort::kBest more sets follow, until the
// time limit, and the best ones are searched thoroughly: the plan is never slower than that of
// Effort::kFast. Fails as search_plan() when no plan is found. Uses two threads unless the options
// want one. Pure except for the time limit and the stop.
Result<plan::Plan> search_replays(const Problem& problem, const PlannerOptions& options);

}  // namespace teraio::planner
