// The FLOPs of the matrix products, convolutions, attentions and recurrent layers that one call of
// a kernel of PyTorch computes, from the shapes of its arguments.
//
// They are counted as model FLOPs are (PaLM, arXiv 2204.02311, appendix B): a multiplication with
// its addition is two, causal attention counts as a whole, and what a backward pass computes again
// does not count.
//
// Threads: any.
#pragma once

#include <ATen/core/ivalue.h>

#include <span>
#include <string_view>

#include "iteration/profile.h"

namespace teraio::pytorch {

// Adds the FLOPs of an op to those of its precision. An op that computes none of the
// above adds none. `name` is that of an OpInfo.
void add_flops(std::string_view name, std::span<const c10::IValue> arguments,
               iteration::FlopsByPrecision& flops);

}  // namespace teraio::pytorch
