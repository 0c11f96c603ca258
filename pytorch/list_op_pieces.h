// Runs a foreach or fused op in pieces that fit the budget.
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

// Runs the op through `run` on slices of about `piece_bytes` at most, and leaves the joined results
// on the stack. Returns false, and runs nothing, when the op needs no splitting or cannot be split.
bool run_in_pieces(const OpInfo& info, int64_t piece_bytes, torch::jit::Stack* stack,
                   const std::function<void(torch::jit::Stack*)>& run);

}  // namespace teraio::pytorch
