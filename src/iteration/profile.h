// Profile: one recorded iteration, with the data that the engine needs to recognise it when it
// repeats.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "iteration/op_origin.h"
#include "iteration/signature.h"
#include "trace/trace.h"

namespace teraio::iteration {

// As accelerator files name precisions, such as "bfloat16".
using FlopsByPrecision = std::map<std::string, int64_t>;

struct Profile {
  trace::Trace trace;
  // Per op: what it was called with. The structures include the persistent tensors.
  std::vector<OpSignature> signatures;
  // Per op: where it comes from. Empty, or as long as the ops.
  std::vector<OpOrigin> origins = {};
  // Per op: its tensors in the order in which its arguments and results name them.
  std::vector<std::vector<trace::TensorIndex>> touches;
  // Of ops that make more than their results, such as what autocast casts and autograd saves: the
  // rest, in the order in which they make it.
  std::unordered_map<trace::OpIndex, std::vector<trace::TensorIndex>> births;
  // Bytes of tensors that live through the whole iteration, that no op touches, and that stay on
  // the device.
  int64_t untouched_bytes = 0;
  FlopsByPrecision flops = {};  // of the program, without replays; empty: they are not known

  trace::OpIndex op_count() const { return static_cast<trace::OpIndex>(trace.ops.size()); }
};

}  // namespace teraio::iteration
