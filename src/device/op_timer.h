// OpTimer: the durations of an iteration's ops on a device that executes them asynchronously, where
// the caller's clock would measure only the enqueueing.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace teraio::device {

class OpTimer {
 public:
  virtual ~OpTimer() = default;
  // Starts timing at the current point of compute and discards earlier measurements.
  virtual void start() = 0;
  // Attributes all compute enqueued since the previous end_op(), or since start(), to one op.
  virtual void end_op() = 0;
  // Sets a mark at the current point of compute, after which nothing is enqueued for a while. When
  // compute reaches it before the next mark is set, it idles from then on.
  virtual void begin_pause() = 0;
  // Attributes the time since the previous mark to no op, because nothing was enqueued.
  virtual void leave_out() = 0;
  // Ends timing. Returns the durations of the ops since start(), in order, without the time that
  // compute waited for copies. Blocks until the last op has ended.
  virtual Result<std::vector<int64_t>> durations_ns() = 0;
};

// Attributes the time that compute idles while the object lives to no op. `timer` may be null.
class PauseOfOps {
 public:
  explicit PauseOfOps(OpTimer* timer) : timer_(timer) {
    if (timer_ != nullptr) timer_->begin_pause();
  }
  ~PauseOfOps() {
    if (timer_ != nullptr) timer_->leave_out();
  }
  PauseOfOps(const PauseOfOps&) = delete;
  PauseOfOps& operator=(const PauseOfOps&) = delete;

 private:
  OpTimer* const timer_;
};

}  // namespace teraio::device
