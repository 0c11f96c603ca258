// StopRequest: whether a measurement, or the wait for another process's, shall end early.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace teraio::probe {

// Threads: one at a time.
class StopRequest {
 public:
  // How often the question is asked at most. The answer may take a lock, such as Python's.
  static constexpr int64_t kIntervalNs = 100'000'000;

  StopRequest() = default;  // never comes
  explicit StopRequest(std::function<bool()> is_wanted) : is_wanted_(std::move(is_wanted)) {}

  // Once true, it stays true.
  bool has_come() {
    if (has_come_ || !is_wanted_) return has_come_;
    const int64_t now_ns = clock_.now_ns();
    if (asked_ns_ && now_ns - *asked_ns_ < kIntervalNs) return false;
    asked_ns_ = now_ns;
    return has_come_ = is_wanted_();
  }

 private:
  std::function<bool()> is_wanted_;
  SteadyClock clock_;
  std::optional<int64_t> asked_ns_;
  bool has_come_ = false;
};

}  // namespace teraio::probe
