// Results of an operator: made on the device when it is called, and filled when it runs.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/stack.h>

#include <vector>

#include "testing/cuda_emulation/operators/op_facts.h"

namespace teraio::testing::emulated_cuda {

// The shapes of what the CPU's kernel has given. Arguments that it gives back have none.
std::vector<ResultShape> shapes_of(const OpFacts& facts, const torch::jit::Stack& results);

struct DeviceResults {
  torch::jit::Stack values;  // for the program
  // For each result, CPU tensors over the bytes of its tensors.
  std::vector<std::vector<at::Tensor>> on_cpu;
};

// Allocates the results on the current stream.
DeviceResults make_results(const OpFacts& facts, const torch::jit::Stack& arguments,
                           const std::vector<ResultShape>& shapes, c10::Device device);

// Copies what the CPU's kernel has given to where the results lie. Raises when a shape differs.
void store_results(const std::vector<std::vector<at::Tensor>>& targets,
                   const torch::jit::Stack& results, const char* name);

}  // namespace teraio::testing::emulated_cuda
