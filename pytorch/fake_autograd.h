// What autograd does differently when tensors are fake, seen as what it does when they are not.
//
// Fake tensors are a subclass with a dispatch of its own, and with those the engine takes no
// shortcuts: it sums gradients into new memory.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>

#include "op_info.h"

namespace teraio::pytorch {

// The outermost op is the engine's sum of two gradients, which it would make in one of the two:
// gives that op, with the arguments on the stack in its order.
std::optional<c10::OperatorHandle> as_sum_in_place(const OpInfo& info, torch::jit::Stack* stack);

}  // namespace teraio::pytorch
