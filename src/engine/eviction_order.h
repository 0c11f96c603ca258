// Which tensor leaves first when memory is short and nothing planned has freed it.
//
// Where the position in the profile is known, the tensor whose next use is farthest away leaves
// first: a tensor that the profile does not know is farther than all. Elsewhere, the tensor whose
// last use is oldest leaves first.
//
// Threads: called under the engine's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/live_tensor.h"
#include "engine/schedule.h"
#include "engine/use.h"

namespace teraio::engine {

// What is known of the program's place. References the schedule.
struct ProgramPlace {
  const Schedule& schedule;
  trace::OpIndex position = kLost;  // in the schedule's profile
  uint64_t op_count = 0;            // ops so far, as LiveTensor::last_use counts them
};

// Returns the candidates in the order in which they leave. Tensors that are equally far leave in
// the order of their ids.
std::vector<LiveTensor*> in_eviction_order(const std::vector<LiveTensor*>& candidates,
                                           const ProgramPlace& place);

}  // namespace teraio::engine
