// Makes autograd on fake tensors record the same ops as autograd on real ones.
//
// When the autograd engine holds the only reference to a gradient, it adds the next gradient in
// place. It does not do so for tensor subclasses, and fake tensors are one: for them it allocates
// the sum. A dry run corrects this, because it would otherwise predict too much memory.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/record_function.h>

#include <optional>

#include "op_info.h"

namespace teraio::pytorch {

// While it lives, each thread knows which autograd nodes run in it: a sum inside of a node is not
// the engine's. A node that began before counts as one that has ended.
class RunningNodes {
 public:
  RunningNodes();
  ~RunningNodes();
  RunningNodes(const RunningNodes&) = delete;
  RunningNodes& operator=(const RunningNodes&) = delete;

 private:
  const at::CallbackHandle callback_;
};

// Returns aten::add_.Tensor when the op that is about to run is the engine's sum of two gradients
// and the engine would add into the first one on real tensors. Returns nothing for every other op.
// The stack is not changed: aten::add.Tensor and aten::add_.Tensor have the same arguments.
//
// Threads: the thread that runs the op, before it runs as an outermost op of a dry run. The answer
// depends on the reference counts of the first argument, so the caller must hold no reference to it
// besides that of the stack.
std::optional<c10::OperatorHandle> as_sum_in_place(const OpInfo& info, torch::jit::Stack* stack);

}  // namespace teraio::pytorch
