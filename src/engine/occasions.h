// Occasions: which allocation of an iteration one is, for the device (device::Occasion).
//
// An allocation of an op is known by the op's position and its number among those of the op; memory
// for a tensor that returns, by the tensor and the op that needs it.
//
// A value. Threads: one at a time.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "engine/use.h"
#include "trace/trace.h"

namespace teraio::engine {

class Occasions {
 public:
  // An op at `position` (kLost: not known, and hence no occasion is) allocates a tensor.
  device::Occasion of_birth(trace::OpIndex position);
  // A tensor of the profile (-1: of none), which the op at `needed_at` uses, returns at `position`.
  device::Occasion of_return(trace::OpIndex position, trace::TensorIndex tensor,
                             trace::OpIndex needed_at);

 private:
  int64_t next_moment(trace::OpIndex position);

  trace::OpIndex position_ = kLost;
  int64_t count_ = 0;         // of allocations at this position
  uint64_t birth_count_ = 0;  // of those for births
};

}  // namespace teraio::engine
