// OpTimer: how long the ops of an iteration took on a device whose compute goes on by itself, so
// that the caller's clock tells nothing.
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
  // The next op's time begins where compute is now. What was noted before is forgotten.
  virtual void start() = 0;
  // All that compute was told since the last one, or since start(), was one op's.
  virtual void end_op() = 0;
  // What has passed since then is nobody's: compute has been told nothing.
  virtual void leave_out() = 0;
  // Of the ops since start(), in order, without what compute waited for copies meanwhile. Blocks
  // until the last of them has ended.
  virtual Result<std::vector<int64_t>> durations_ns() = 0;
};

}  // namespace teraio::device
