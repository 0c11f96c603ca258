// Time as nanoseconds of a steady clock.
//
// Components that wait or measure take a Clock, so that tests and simulations run on virtual time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace teraio {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since an arbitrary start. Never goes back. Any thread.
  virtual int64_t now_ns() const = 0;
};

class SteadyClock final : public Clock {
 public:
  int64_t now_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// Time that passes only when somebody says so. Any thread.
class VirtualClock final : public Clock {
 public:
  int64_t now_ns() const override { return now_ns_.load(std::memory_order_relaxed); }

  // Never goes back: an earlier moment changes nothing.
  void advance_to(int64_t moment_ns);

 private:
  std::atomic<int64_t> now_ns_{0};
};

}  // namespace teraio
