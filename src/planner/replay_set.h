// ReplaySet: which tensors a plan discards and makes again, chosen before any transfer.
//
// Bytes cost nothing to move where the channels would idle, and their whole time where they are
// saturated. A replay costs the time of its op everywhere. Several ways to choose are worth a try,
// because only an execution shows where channels are saturated:
//
//   transfer_share 0   replays relieve all pressure that they can: the fewest bytes move
//   transfer_share 1   what cannot be replayed moves first, in all bandwidth that computation
//                      hides, and replays relieve the rest: the fewest replays
//   between            transfers get a share of that bandwidth
//   above 1            transfers take time that computation does not hide
//   cheap_first        cheap replays, then transfers of all but candidates, then heavy replays
//   cost_share_max     only replays that cost less: cheap ones, those that cost less than moving
//                      their bytes over all tiers, or all candidates, for full host memory
//   moved_share        so much of the peak that all of these replays would relieve is left to moves
//   first_ns           and nothing in so much of the begin of the step
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "planner/problem.h"
#include "planner/replay_candidates.h"

namespace teraio::planner {

struct ReplaySetOptions {
  double transfer_share = 0;
  bool cheap_first = false;
  double cost_share_max = 0.6;  // of ReplayCandidate::cost_share
  double moved_share = 0;
  double first_ns = 0;

  bool operator==(const ReplaySetOptions&) const = default;
};

// Returns the positions of the chosen candidates: greedily those that relieve the most pressure
// over time per time of their replays, until every op fits; then without those that are no longer
// needed. `op_ns` is the timeline. A pure function; any thread may call it.
std::vector<int32_t> choose_replays(const Problem& problem,
                                    const std::vector<ReplayCandidate>& candidates,
                                    const ReplaySetOptions& options,
                                    const std::vector<double>& op_ns);

// Returns the periods of the chosen candidates.
std::vector<int32_t> periods_of(const std::vector<ReplayCandidate>& candidates,
                                const std::vector<int32_t>& chosen);

// Returns the periods, which are those of candidates, without the ones whose tensors can stay on
// the device or move instead: in the bandwidth, the memory and the room on the tiers that are left
// on the timeline `op_ns` beside the other transfers. The most expensive replays per byte go first.
// A pure function.
std::vector<int32_t> without_movable(const Problem& problem,
                                     const std::vector<ReplayCandidate>& candidates,
                                     const std::vector<int32_t>& periods,
                                     const std::vector<double>& op_ns);

// Returns the discards and recomputes of these periods, positions in lifetimes.periods, in the
// order of their execution. Chains are in order, inputs first: a tensor that a replay reads is made
// again before it, if need be ahead of its own next use, and as a temporary when the program has
// freed it. Requires that the periods are those of candidates.
plan::Plan replay_actions(const Problem& problem, const std::vector<int32_t>& periods);

}  // namespace teraio::planner
