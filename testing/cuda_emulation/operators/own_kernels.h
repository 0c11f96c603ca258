// Kernels for operators that the CPU has none of, or another one than a GPU: plain formulas.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/stack.h>

#include <string>

namespace teraio::testing::emulated_cuda {

// Replaces the arguments by the results.
using OwnKernel = void (*)(torch::jit::Stack& stack, const at::Generator& generator);

// The kernel of the operator ("aten::native_dropout"), or null.
OwnKernel find_own_kernel(const std::string& name);

// Attention, in attention.cpp.
void attend(torch::jit::Stack& stack, const at::Generator& generator);
void attend_backward(torch::jit::Stack& stack, const at::Generator& generator);

}  // namespace teraio::testing::emulated_cuda
