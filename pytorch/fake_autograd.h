// Makes autograd on fake tensors look like autograd on real ones.
//
// Fake tensors are a subclass with a dispatch of its own. For such tensors the autograd engine
// takes no shortcuts and sums gradients into new memory.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>

#include "op_info.h"

namespace teraio::pytorch {

// Returns the in-place op that the engine would have run, when the outermost op is the engine's sum
// of two gradients and would reuse one of them on real tensors. The arguments on the stack are then
// in the order of that op.
std::optional<c10::OperatorHandle> as_sum_in_place(const OpInfo& info, torch::jit::Stack* stack);

}  // namespace teraio::pytorch
