// How much work a GPU's kernel of an operator has: the arithmetic of matrix products and of
// attention, and for every operator the bytes that it reads and writes, each once.
#pragma once

#include <ATen/core/stack.h>

#include <string>
#include <vector>

#include "testing/cuda_emulation/launch.h"
#include "testing/cuda_emulation/operators/operands.h"

namespace teraio::testing::emulated_cuda {

// The arithmetic of the operator `name` ("aten::mm") with these operands, and their bytes.
Work work_on_operands(const std::string& name, const torch::jit::Stack& arguments,
                      const Operands& operands);

// The bytes for what the operator makes anew.
Work work_on_results(const std::string& name, const std::vector<std::vector<at::Tensor>>& results);

}  // namespace teraio::testing::emulated_cuda
