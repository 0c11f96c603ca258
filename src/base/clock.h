// Clock: time in nanoseconds since an arbitrary start.
//
// Components that wait or measure are given a Clock, which outlives them, so that tests and
// simulations run on virtual time. Threads: any, for all clocks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace teraio {

class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes back.
  virtual int64_t now_ns() const = 0;
};

// The system's monotonic clock.
class SteadyClock final : public Clock {
 public:
  int64_t now_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// Stands still except when advance_to() is called.
class VirtualClock final : public Clock {
 public:
  int64_t now_ns() const override { return now_ns_.load(std::memory_order_relaxed); }

  // A moment that has passed already changes nothing.
  void advance_to(int64_t moment_ns);

 private:
  std::atomic<int64_t> now_ns_{0};
};

}  // namespace teraio
