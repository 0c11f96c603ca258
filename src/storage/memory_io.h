// A drive in memory on virtual time: the same seed gives the same latencies on every machine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "storage/drive_io.h"

namespace teraio {

// Time that passes only when somebody says so. Any thread.
class VirtualClock final : public Clock {
 public:
  int64_t now_ns() const override { return now_ns_.load(std::memory_order_relaxed); }

  // Never goes back: an earlier moment changes nothing.
  void advance_to(int64_t moment_ns);

 private:
  std::atomic<int64_t> now_ns_{0};
};

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
std::unique_ptr<DriveIo> make_memory_io(const MemoryDriveOptions& options, VirtualClock& clock);

}  // namespace teraio
