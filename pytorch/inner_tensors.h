// Tensors that are made of others: sparse ones, and quantized ones with scales of their own.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace teraio::pytorch {

// Indices and values; scales and zero points. Kernels take them without an op. Empty for everything
// else, undefined tensors included.
std::vector<at::Tensor> inner_tensors(const at::Tensor& tensor);

}  // namespace teraio::pytorch
