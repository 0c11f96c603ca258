// Lifetimes: when each tensor of a trace is idle, and how much memory each op needs.
//
//   ops        0   1   2   3   4   5   6   7
//   tensor A       W   .   .   r   .   r   .      born before 1, dies after 7
//                    [idle ]     [i]     [i]      inactive: ops 2..3, op 5, and 7, until it is
//                    freed
//   weight P   r   .   .   .   .   .   W   .      persistent: idle 1..5, and 7..(8+0) over the end
//
// Ops are "unrolled" where a range may pass the end of the iteration: op N + k is op k of the next.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/trace.h"
#include "trace/trace_index.h"

namespace teraio::trace {

// The ops [first, end) strictly between two uses: at op `end` the tensor is used again. Or after
// the last use of a tensor that lives on without one: it is freed right after op end - 1.
struct InactivePeriod {
  TensorIndex tensor = 0;
  int64_t first = 0;  // in [1, N]
  int64_t end = 0;    // unrolled; > first
  int32_t epoch = 0;  // its position in Lifetimes::epochs
  bool until_freed = false;

  // The op that ends it: the next use, or the last one of the tensor's life.
  int64_t deadline() const { return until_freed ? end - 1 : end; }

  bool operator==(const InactivePeriod&) const = default;
};

// The inactive periods of a tensor between two writes of it, in order of time. A copy that is made
// in one of them stays valid in those after it.
struct CopyEpoch {
  TensorIndex tensor = 0;
  bool never_written = false;    // by no op at all: a copy exists from the start
  std::vector<int32_t> periods;  // positions in Lifetimes::periods

  bool operator==(const CopyEpoch&) const = default;
};

struct Lifetimes {
  std::vector<InactivePeriod> periods;   // in order of tensor, then time; none is empty
  std::vector<CopyEpoch> epochs;         // those that have periods
  std::vector<int64_t> footprint_bytes;  // per op: tensors alive, and its workspace
  std::vector<int64_t> active_bytes;     // per op: what has to be on the device while it runs
};

// Requires validate(trace).ok(). Linear in the trace's size. Tensors smaller than
// `smallest_tensor_bytes`, and those that no op uses, have no periods; they count as active at
// every op of their life. Pure; any thread may call it.
Lifetimes lifetimes_of(const TraceIndex& index, int64_t smallest_tensor_bytes = 0);

// The same; builds the index first.
Lifetimes lifetimes_of(const Trace& trace, int64_t smallest_tensor_bytes = 0);

}  // namespace teraio::trace
