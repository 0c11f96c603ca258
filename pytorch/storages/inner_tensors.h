// Tensors that consist of other tensors: sparse tensors, per-channel quantized tensors, and
// wrappers that handle operators in Python. Operators use the inner tensors without another op that
// the observer sees.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace teraio::pytorch {

// Returns the tensors inside `tensor`. For a sparse tensor these are its indices and values, and
// for a per-channel quantized one its scales and zero points. For a wrapper they are the tensors
// that __tensor_flatten__ names or, without that method, those that its attributes hold (also
// inside lists, tuples and dictionaries, up to a depth of 8). A wrapper inside a wrapper is
// replaced by its own inner tensors. Returns nothing for every other tensor, undefined ones
// included.
//
// Takes the GIL for a wrapper, so the caller must not hold the runtime's lock. Raises what the
// wrapper's Python code raises.
std::vector<at::Tensor> inner_tensors(const at::Tensor& tensor);

// Returns whether a wrapper (see is_wrapper()) is one of PyTorch's own, a DTensor or the result of
// a collective under way: all that their dispatch does with the bytes inside are operators. Others
// may run kernels that are none. Takes the GIL.
bool passes_all_on(const at::Tensor& wrapper);

}  // namespace teraio::pytorch
