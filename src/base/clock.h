// Clock: time in nanoseconds since an arbitrary start.
//
// A component that waits or measures receives a Clock, which must outlive it, so that tests and
// simulations run on virtual time. Any thread may call any clock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace teraio {

class Clock {
 public:
  virtual ~Clock() = default;
  // Never decreases.
  virtual int64_t now_ns() const = 0;
  // Blocks the calling thread for this time.
  virtual void sleep(int64_t duration_ns) const {
    std::this_thread::sleep_for(std::chrono::nanoseconds(duration_ns));
  }
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

// What to add to the clock's times to get nanoseconds of Unix time. The two drift apart.
int64_t unix_offset_ns(const Clock& clock);

// A clock that changes only when advance_to() or sleep() is called. sleep() does not block.
class VirtualClock final : public Clock {
 public:
  int64_t now_ns() const override { return now_ns_.load(std::memory_order_relaxed); }

  // Sets the time to `time_ns`; does nothing when that time has passed already.
  void advance_to(int64_t time_ns) { set(time_ns); }
  void sleep(int64_t duration_ns) const override { set(now_ns() + duration_ns); }

 private:
  void set(int64_t time_ns) const;

  mutable std::atomic<int64_t> now_ns_{0};
};

}  // namespace teraio
