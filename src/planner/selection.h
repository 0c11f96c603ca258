// Selection: which inactive periods to offload, best benefit per cost first.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "planner/plan_builder.h"

namespace teraio::planner {

// Moves periods while some op needs more than the budget and a period's transfers fit into the
// bandwidth that is left. `observe`, when given, sees every choice.
// Takes a period whose score is within `tolerance` of the best's: exact greedy at 0, and much
// faster at a few percent.
void select_in_time(PlanBuilder& builder, double tolerance,
                    const std::function<void(const Candidate&)>& observe = {});

// Moves periods until every op fits, whatever their transfers take. Fails (kOutOfSpace) when the
// tiers or the write budget do not allow it. The builder's timing is forgotten when this has to
// act.
Status select_to_fit(PlanBuilder& builder, double tolerance);

// Takes back moves that no op needs any more, those with the least benefit first.
void revert_unneeded(PlanBuilder& builder);

// Starts reads as early as memory allows, in order of next use, so that the read channels never
// wait while there is room.
void prefetch_early(PlanBuilder& builder);

// Starts no read more than `horizon_ns` before it has to, on the timeline of `op_ns`: room that
// early reads take is missed where writes are late.
void limit_read_ahead(PlanBuilder& builder, const std::vector<double>& op_ns, double horizon_ns);

// The moves as migrations, in the order in which they are issued.
plan::Plan plan_of(const PlanBuilder& builder);

}  // namespace teraio::planner
