// OpTimeHistory: how long each op took in the last iterations that ran the same ops.
//
// A disturbance makes an op take longer, never shorter, and every iteration has some op that is
// disturbed. So of two iterations the shorter time of each op counts, and of three the middle one.
//
// Times come from a device's timer where there is one, else from the caller's clock.
//
// Threads: under the lock of its owner.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "device/op_timer.h"
#include "iteration/profile.h"

namespace teraio::learn {

// The first and the last of some steps; the session's first step is 1. A value.
struct TimedSteps {
  int64_t first = 0;
  int64_t last = 0;
};

class OpTimeHistory {
 public:
  // `timer` may be null and outlives the history.
  explicit OpTimeHistory(device::OpTimer* timer) : timer_(timer) {}

  // `is_timed`: somebody wants the times of this iteration. Reading the clock costs a good part of
  // what the hooks cost.
  void start_iteration(int64_t now_ns, int64_t stall_ns, bool is_timed);
  bool is_timed() const { return is_timed_; }

  // An op of a timed iteration ends. `stall_ns`: all that ops have waited so far; that is no op's
  // time. Returns the op's time.
  int64_t end_op(int64_t now_ns, int64_t stall_ns);

  // The next op's time does not include the last `duration_ns`.
  void leave_out(int64_t duration_ns);

  // The iteration, which was this step, ends. `is_repeated`: it had the same ops as the one before;
  // otherwise the history begins with it. `are_wanted`: a plan may come from its times; only then
  // they are read from the device's timer, which waits for it. Logs when that fails, and keeps no
  // times then.
  void end_iteration(int64_t step, bool is_repeated, bool are_wanted);

  // Puts the times into the profile, whose ops are those of the last iteration: the times from
  // `first_step` on. They add up to what the middle iteration took. Returns the steps that they are
  // from; nothing without times of as many ops: the profile keeps its own.
  std::optional<TimedSteps> apply_to(iteration::Profile& profile, int64_t first_step) const;

 private:
  struct Timed {
    int64_t step = 0;
    std::vector<int64_t> durations_ns;
  };

  void keep(int64_t step);

  device::OpTimer* timer_;
  bool is_timed_ = false;
  int64_t last_op_end_ns_ = 0;
  int64_t last_op_end_stall_ns_ = 0;
  std::vector<int64_t> durations_ns_;  // of the ops of this iteration
  std::deque<Timed> history_;          // of iterations that had the same ops, newest last
};

}  // namespace teraio::learn
