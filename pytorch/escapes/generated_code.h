// The code that Inductor generates, op by op.
//
// A generated program calls its kernels, in C++ or Triton's, and allocates its buffers without the
// dispatcher. The functions here wrap what it calls: each call of a kernel is an op with the
// tensors that the kernel reads and writes, and each allocation is an op like aten::empty, so that
// a buffer is known from its birth on. Operators that the program calls are observed as everywhere.
//
// Threads: the wrapped functions run with the GIL, as Inductor's do. They give it up while a tensor
// is restored or memory is made.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace teraio::pytorch {

// Adds observed_kernel() and observed_empty_strided() to `module`. Needs the GIL.
void bind_generated_code(pybind11::module_& module);

}  // namespace teraio::pytorch
