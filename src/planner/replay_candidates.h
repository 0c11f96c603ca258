// ReplayCandidates: the inactive periods that tensors may spend discarded, because the op that made
// them (their producer) may run again at the end.
//
//   op        0   1   2   3   4   5   6   7
//   x         W   r   .   .   .   .   r   .
//   norm          W   r   [---------] r   .
//   rstd          W   [-------------] .   r
//
// Op 1 reads only x, which no op has written since and which is alive at op 6: op 1 may run again
// before it, and brings back both of its results.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/planner.h"
#include "planner/problem.h"

namespace teraio::planner {

// One replay, and what it brings back. A value type.
struct ReplayCandidate {
  std::vector<int32_t> periods;  // positions in lifetimes.periods, the one that ends first in front
  int64_t end = 0;               // the op before which the replay runs: the end of the first period
  std::vector<trace::TensorIndex> inputs;  // that must be on the device, without parameters
  double replay_ns = 0;    // the time of the producer and of those that make freed inputs again
  int64_t size_bytes = 0;  // of all tensors
  double cost_share = 0;   // replay_ns / the time of moving the bytes out and back over all tiers
};

// Candidates with a lower cost_share than this are cheap.
constexpr double kCheapCostShare = 0.1;

// Returns the candidates in the order of their first periods: those that the rules of replays
// allow, that take less than half of the longest period on the timeline `op_ns`, and that cost less
// than 0.6 of moving the bytes out and back. What the host tier cannot hold moves at the rates of
// the drives. With Recompute::kCheap only cheap ones. Leaves out tensors with several writers,
// which the validator refuses. Inputs that the program has freed are made again too, as
// temporaries. A pure function; any thread may call it.
std::vector<ReplayCandidate> find_replay_candidates(const Problem& problem, Recompute recompute,
                                                    const std::vector<double>& op_ns);

}  // namespace teraio::planner
