// SteadyPrecision: whether the program keeps the precision of float32 products (TF32) from one
// optimizer step to the next.
//
// A replay cannot have another precision than is current (KernelFlags::set()). When a program has
// changed it between two steps once, no op is replayed any more. What comes before the end of the
// first step does not count, because the program may set the precision when it has made its model.
//
// A program with several optimizers that changes it at a step, in the middle of an iteration, is
// not noticed: a replay beyond that step is an error that says so (op_replay.cpp).
//
// Threads: any.
#pragma once

#include <mutex>
#include <optional>

#include "replay/captured_op.h"
#include "replay/kernel_flags.h"

namespace teraio::pytorch {

class SteadyPrecision {
 public:
  // An optimizer step has ended: another precision from here on is no change.
  void end_step();
  // Notes the precision of an op that has run. Returns whether it has been the same between any two
  // steps so far.
  bool holds_for(const CapturedOp& op);

 private:
  std::mutex mutex_;
  std::optional<KernelFlags> first_;  // since the last step
  bool holds_ = true;
  bool is_set_up_ = false;  // the first step is over
};

}  // namespace teraio::pytorch
