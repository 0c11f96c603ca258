// ReplayChains: which replays go together.
//
// A replay reads tensors that may be discarded themselves: these are made again before it, ahead of
// their own use. That costs nothing near the end of their period, and undoes the discard elsewhere:
//
//   op          0   1   2   3   4   5  ...  90  91  92
//   norm        W   r   [-------------------]   .   r    with x, before op 90: norm is needed soon
//   x               W   r   [---------------]   r        with y, before op 5: x would stay or move
//   y                   W   r   [-] r                    for most of its period
//
// Chains bring back an eighth of the budget at most, so that the first replay of a backward pass
// does not bring back the whole forward pass. What is kept between them serves as checkpoints do.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/problem.h"
#include "planner/replay_candidates.h"

namespace teraio::planner {

// Not for several threads.
class ReplayChains {
 public:
  // `candidates` outlive this object; `op_ns` is the timeline.
  ReplayChains(const Problem& problem, const std::vector<ReplayCandidate>& candidates,
               const std::vector<double>& op_ns);

  // Whether the candidate goes together with those that are chosen. Once false, stays false.
  bool allow(int32_t candidate);
  void choose(int32_t candidate) { is_chosen_[candidate] = true; }

 private:
  bool is_away(int32_t candidate, int64_t op) const;
  bool is_far_from_end(int32_t candidate, int64_t op) const;
  bool walk_makers(int32_t candidate, int64_t op);
  bool walk_readers(int32_t candidate, int32_t made);
  void visit(int32_t candidate);

  const std::vector<ReplayCandidate>& candidates_;
  std::vector<double> start_ns_ = {0};         // per op, and the end
  std::vector<int64_t> first_;                 // per candidate: the begin of its first period
  std::vector<std::vector<int32_t>> makers_;   // per candidate: those that make what it reads
  std::vector<std::vector<int32_t>> readers_;  // the reverse
  std::vector<uint8_t> is_chosen_;             // per candidate
  std::vector<uint8_t> is_walked_;             // per candidate: by the present walk
  std::vector<int32_t> walked_;                // these
  const int64_t early_bytes_max_;
};

}  // namespace teraio::planner
