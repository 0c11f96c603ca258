// Tensors that are made of others: sparse ones, quantized ones with scales of their own, and
// wrappers that handle operators in Python, below which nothing is observed.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace teraio::pytorch {

// Indices and values; scales and zero points; what __tensor_flatten__ names, or the wrapper's
// attributes hold, in lists, tuples and dictionaries too. They are used without an op that is seen.
// May take Python's lock. Empty for everything else, undefined tensors included.
std::vector<at::Tensor> inner_tensors(const at::Tensor& tensor);

}  // namespace teraio::pytorch
