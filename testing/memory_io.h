// A drive in memory on virtual time. The same seed gives the same latencies on every machine.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/rates.h"
#include "io/drive_io.h"

namespace teraio::testing {

struct MemoryDriveOptions {
  int64_t capacity_bytes = 0;
  Rates rates{4'000'000'000, 3'000'000'000};
  // Added to every request, uniformly distributed, so that requests end in another order than they
  // started.
  int64_t latency_ns_min = 10'000;
  int64_t latency_ns_max = 100'000;
  uint64_t seed = 1;
};

// `clock` must outlive the result. wait() advances it to the end of each request that it returns.
std::unique_ptr<io::DriveIo> make_memory_io(const MemoryDriveOptions& options, VirtualClock& clock);

}  // namespace teraio::testing
