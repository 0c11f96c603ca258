// Runs a foreach or fused op in slices that fit the budget.
//
// Such an op takes every parameter of the model at once, which no budget below the model's size can
// hold. It treats the n-th tensors of its lists together and independently of all others, so
// running it on consecutive slices of its lists gives bit-identical results.
#pragma once

#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>

#include "op_info.h"

namespace teraio::pytorch {

// Returns the size in bytes above which a list op runs in slices.
int64_t list_op_slice_bytes(int64_t device_budget_bytes);

// Runs the op on slices of its lists and leaves the joined results on `stack`. A slice has at most
// `slice_bytes_max`, or one element of every list. `run` gets a stack with the arguments of one
// slice and leaves the results there. Returns false, runs nothing and leaves `stack` as it is when
// the arguments fit one slice or cannot be sliced: lists differ in length, or a tensor argument has
// elements along them.
//
// An exception of `run` passes through. The slices before it have been executed then, and the
// arguments are no longer on `stack`.
bool run_in_slices(const OpInfo& info, int64_t slice_bytes_max, torch::jit::Stack* stack,
                   const std::function<void(torch::jit::Stack*)>& run);

}  // namespace teraio::pytorch
