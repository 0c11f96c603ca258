// The kernel that stands in the place of each CUDA kernel: it sends the CPU's kernel, on the same
// bytes, to the current stream, and returns at once.
//
// The caller waits where it must know the results: for the first call with arguments of these
// shapes (the shapes of its results are remembered), where they depend on values, and for numbers.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace teraio::testing::emulated_cuda {

void emulate(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// For aten::copy_: copies between devices are PyTorch's own and come to the runtime; what a kernel
// would do (conversions, strides) is emulated.
void emulate_copy(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

}  // namespace teraio::testing::emulated_cuda
