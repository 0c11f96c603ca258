// Tensors that consist of other tensors: sparse tensors, per-channel quantized tensors, and
// wrappers that handle operators in Python, below which the observer sees nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace teraio::pytorch {

// Returns the tensors inside `tensor`: indices and values; scales and zero points; the tensors that
// __tensor_flatten__ names, or that the wrapper's attributes hold (also inside lists, tuples and
// dictionaries). Operators use them without an op that the observer sees. Returns nothing for every
// other tensor, undefined ones included. May take the GIL.
std::vector<at::Tensor> inner_tensors(const at::Tensor& tensor);

}  // namespace teraio::pytorch
