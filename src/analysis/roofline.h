// The migration roofline: the fraction of ideal that no plan can exceed, as a function of the
// bandwidth of the drives.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "trace/trace.h"

namespace teraio::analysis {

struct RooflinePoint {
  int64_t bytes_per_second = 0;  // in each direction, at the same time
  double fraction_of_ideal = 0;  // an upper bound
  bool operator==(const RooflinePoint&) const = default;
};

// Returns one point per rate, in the same order: lower_bounds() of a machine with
// `device_memory_bytes`, no host tier, and drives of practically unlimited capacity and no latency
// that move the rate in each direction. Uses two threads. Fails (kOutOfMemory) when an op does not
// fit, whatever moves. Requires validate(trace).ok().
Result<std::vector<RooflinePoint>> migration_roofline(const trace::Trace& trace,
                                                      int64_t device_memory_bytes,
                                                      std::span<const int64_t> rates);

}  // namespace teraio::analysis
