// Selection: chooses the inactive periods to offload, greedily by benefit per cost, and times their
// transfers. One thread at a time may use a builder.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "planner/plan_builder.h"

namespace teraio::planner {

// Moves periods while some op needs more than the budget and the transfers of a period fit into the
// bandwidth that is left. Each choice has a score within `tolerance` of the best one: 0 is the
// exact greedy choice, a few percent are much faster. `headroom_share` of the budget is left free
// where bandwidth allows it. Calls `observe`, when given, with every choice.
void select_in_time(PlanBuilder& builder, double tolerance, double headroom_share = 0,
                    const std::function<void(const Candidate&)>& observe = {});

// Moves periods until every op fits, however long their transfers take. Does nothing when every op
// fits already; otherwise it discards the planned times of the builder. Fails (kOutOfSpace) when
// the tiers or the write budget do not allow it.
Status select_to_fit(PlanBuilder& builder, double tolerance);

// Reverts moves that no op needs, those that free memory during the fewest ops first.
void revert_unneeded(PlanBuilder& builder);

// Starts reads as early as memory allows, in the order of their next uses, so that the read
// channels never idle while there is room.
void prefetch_early(PlanBuilder& builder);

// Has writes to the drives rest in host memory first where that frees the device: see RelayChoice.
// `op_ns`: the timeline. Returns whether there are any. To be called before reads are made earlier.
bool relay_writes(PlanBuilder& builder, const std::vector<double>& op_ns);

// Lets no read start more than `horizon_ns` before it must on the timeline `op_ns`: memory that
// early reads take is missing when writes are late.
void limit_read_ahead(PlanBuilder& builder, const std::vector<double>& op_ns, double horizon_ns);

// Returns the moves as migrations, in the order in which they are issued.
plan::Plan plan_of(const PlanBuilder& builder);

}  // namespace teraio::planner
