// Profile: one recorded iteration, with what is needed to recognise it when it comes again.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/trace.h"

namespace teraio::engine {

struct Profile {
  trace::Trace trace;
  // Per op: what it was called with (schema, shapes, persistent tensors), as a hash.
  std::vector<uint64_t> signatures;
  // Per op: its tensors in the order in which its arguments and results name them.
  std::vector<std::vector<trace::TensorIndex>> touches;
  // Alive during the whole iteration, touched by none of its ops, and staying on the device.
  int64_t untouched_bytes = 0;

  trace::OpIndex op_count() const { return static_cast<trace::OpIndex>(trace.ops.size()); }
};

}  // namespace teraio::engine
