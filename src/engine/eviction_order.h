// Which tensor leaves first when memory is short and nothing planned has freed it.
//
// The tensor whose next use is farthest away leaves first. Where the position in the profile is
// known, the profile tells it, and a tensor that the profile does not know is farther than all.
// Where the program runs ops that the profile does not have, the next uses are counted from the
// last known position, and a tensor that the profile does not know is expected to be idle for as
// long as it has been so far. Without any position, that holds for all tensors.
//
// Threads: called under the engine's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/live_tensor.h"
#include "engine/use.h"
#include "iteration/schedule.h"

namespace teraio::engine {

// What is known of the program's place. References the schedule.
struct ProgramPlace {
  const iteration::Schedule& schedule;
  trace::OpIndex position = iteration::kLost;  // in the schedule's profile: the last known one
  bool is_lost = true;                         // the program has left it since
  uint64_t op_count = 0;                       // ops so far, as UseState::last_op counts them
};

// Returns the candidates in the order in which they leave. Tensors that are equally far leave in
// the order of their ids.
std::vector<LiveTensor*> in_eviction_order(const std::vector<LiveTensor*>& candidates,
                                           const ProgramPlace& place);

}  // namespace teraio::engine
