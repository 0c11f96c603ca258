// Tensors that are made of others: sparse ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace teraio::pytorch {

// Indices and values, which kernels take without an op. Empty for everything else, undefined
// tensors included.
std::vector<at::Tensor> inner_tensors(const at::Tensor& tensor);

}  // namespace teraio::pytorch
