// A drive in memory on virtual time: the same seed gives the same latencies on every machine.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "io/drive_io.h"

namespace teraio::testing {

struct MemoryDriveOptions {
  int64_t capacity_bytes = 0;
  int64_t read_bytes_per_second = 4'000'000'000;
  int64_t write_bytes_per_second = 3'000'000'000;
  // Added to every request, evenly distributed: requests end in another order than they began.
  int64_t latency_ns_min = 10'000;
  int64_t latency_ns_max = 100'000;
  uint64_t seed = 1;
};

// `clock` outlives the result, and moves to the end of every request as wait() returns it.
std::unique_ptr<io::DriveIo> make_memory_io(const MemoryDriveOptions& options, VirtualClock& clock);

}  // namespace teraio::testing
