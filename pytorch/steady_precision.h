// SteadyPrecision: whether the program keeps the precision of float32 products (TF32) for whole
// iterations.
//
// A replay cannot have another precision than is current (KernelFlags::set()). When a program has
// changed it within an iteration once, no op is replayed any more. The first iteration does not
// count after its end, because the program may set the precision when it has made its model.
//
// Threads: any.
#pragma once

#include <mutex>
#include <optional>

#include "captured_op.h"
#include "kernel_flags.h"

namespace teraio::pytorch {

class SteadyPrecision {
 public:
  // Another precision from here on is no change within an iteration.
  void start_iteration();
  // Notes the precision of an op that has run. Returns whether it has been the same within each
  // iteration so far.
  bool holds_for(const CapturedOp& op);

 private:
  std::mutex mutex_;
  std::optional<KernelFlags> first_;  // of the iteration
  bool holds_ = true;
  bool is_set_up_ = false;  // the first iteration is over
};

}  // namespace teraio::pytorch
