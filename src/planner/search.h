// Search: improves a plan in rounds, each on the timeline that the simulator reported for the plan
// before, and keeps the best plan.
//
// The simulator executes every plan, and the search learns two things from it. Bandwidth is booked
// against the times at which ops really run, not against the ideal ones. And time has a price:
// where ops stall, a byte to read costs all of its time and a byte of room is worth the most; where
// channels idle, both are almost free.
#pragma once

#include "base/status.h"
#include "planner/plan_builder.h"
#include "planner/planner.h"

namespace teraio::planner {

// Returns the best plan found. The search ends when the rounds of the effort are used up, when
// nothing is left to gain, or at the time limit, but not before one round has produced a plan. When
// the write budget binds, writes have a price as well, and room for the minimum write set is
// reserved in the budget. Fails as plan() does. Uses two threads with Effort::kBest and under a
// write budget. Pure except for the time limit; any thread may call it.
// Ignores what the options say about replays and preferences.
Result<plan::Plan> search_plan(const Problem& problem, const PlannerOptions& options);

}  // namespace teraio::planner
