// Running a foreach or fused op in pieces that fit.
//
// Such an op names every parameter of the model at once, which no budget below the model's size can
// hold. It treats the n-th tensors of its lists together and independently of all others, so that
// running it on consecutive slices of its lists gives the same bits.
#pragma once

#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>

#include "op_info.h"

namespace teraio::pytorch {

// Runs the op on slices of at most about `piece_bytes` through `run` and leaves the joined results
// on the stack. False, with nothing run, when the op needs no splitting or cannot be split.
bool run_in_pieces(const OpInfo& info, int64_t piece_bytes, torch::jit::Stack* stack,
                   const std::function<void(torch::jit::Stack*)>& run);

}  // namespace teraio::pytorch
