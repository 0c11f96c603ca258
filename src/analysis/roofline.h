// The migration roofline: how near to ideal any plan can come, given what drives move per second.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "trace/trace.h"

namespace teraio::analysis {

struct RooflinePoint {
  int64_t bytes_per_second = 0;  // each way, both ways at once
  double fraction_of_ideal = 0;  // at most; no plan exceeds it
  bool operator==(const RooflinePoint&) const = default;
};

// One point per rate, in the same order: the lower bound of simulate/bounds on a machine with
// `device_memory_bytes`, and drives without end that move the rate each way and answer at once.
// Uses two threads. Fails (kOutOfMemory) when an op does not fit, whatever moves.
Result<std::vector<RooflinePoint>> migration_roofline(const trace::Trace& trace,
                                                      int64_t device_memory_bytes,
                                                      std::span<const int64_t> rates);

}  // namespace teraio::analysis
