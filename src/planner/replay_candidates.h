// ReplayCandidates: the inactive periods that a tensor may spend discarded, because the op that
// made it (its producer) may run again at their end.
//
//   op        0   1   2   3   4   5   6
//   x         W   r   .   .   .   .   r
//   norm          W   r   [---------] r      op 1 reads only x, which no op has written since and
//                                            which is alive at op 6: op 1 may run again before it
#pragma once

#include <cstdint>
#include <vector>

#include "planner/planner.h"
#include "planner/problem.h"

namespace teraio::planner {

// A value type.
struct ReplayCandidate {
  int32_t period = 0;           // a position in lifetimes.periods
  trace::OpIndex producer = 0;  // its replay takes the time of this op ...
  double replay_ns = 0;         // ... and of those that make freed inputs again
  int64_t size_bytes = 0;
  bool is_cheap = false;  // the replay takes less than a tenth of moving the bytes out and back
};

// Returns the candidates in the order of the periods: those that the rules of replays allow, that
// cost less than 0.6 of moving the bytes out and back over all tiers at once, and less than half of
// the period on the timeline `op_ns`. With Recompute::kCheap only cheap ones. Leaves out
// tensors with several writers, which the validator refuses. Inputs that the program has freed are
// made again too, as temporaries. A pure function; any thread may call it.
std::vector<ReplayCandidate> find_replay_candidates(const Problem& problem, Recompute recompute,
                                                    const std::vector<double>& op_ns);

}  // namespace teraio::planner
