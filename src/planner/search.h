// Search: plans again on the timeline that the plan before stretched, and keeps the best plan.
//
// The simulator executes every plan. Two things are learned from each execution. Bandwidth is
// booked against when ops really run, not against the ideal. And time has a price: where ops stall,
// a byte that must be read costs all of its time and a byte of room is worth most; where channels
// idle, both are nearly free.
#pragma once

#include "base/status.h"
#include "planner/plan_builder.h"
#include "planner/planner.h"

namespace teraio::planner {

// The best plan found. Goes on until the rounds of the effort are used up, nothing is left to gain,
// or the time limit is over: rounds are made until one gave a plan, whatever they take. Under a
// write budget that binds, writes have a price too, and what has to be written at least is
// reserved. Fails as plan() does. Uses two threads with Effort::kBest and under a write budget.
Result<plan::Plan> search_plan(const Problem& problem, const PlannerOptions& options);

}  // namespace teraio::planner
