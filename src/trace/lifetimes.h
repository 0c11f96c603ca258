// Lifetimes: when each tensor of a trace is inactive, and how much memory each op needs.
//
//   ops        0   1   2   3   4   5   6   7
//   tensor A       W   .   .   r   .   r   .      born before 1, dies after 7
//                    [idle ]     [i]     [i]      inactive: ops 2..3, op 5, and 7, until it is
//                    freed
//   weight P   r   .   .   .   .   .   W   .      persistent: idle 1..5, and 7..(8+0) over the end
//
// Op numbers are "unrolled" where a range may extend past the end of the iteration: op N + k is op
// k of the next iteration.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/trace.h"
#include "trace/trace_index.h"

namespace teraio::trace {

// The ops [first, end) strictly between two uses of a tensor; op `end` is the next use. Or, for a
// tensor that is freed later than its last use, the ops after that use: the tensor is freed right
// after op end - 1.
struct InactivePeriod {
  TensorIndex tensor = 0;
  int64_t first = 0;  // in [1, N]
  int64_t end = 0;    // unrolled; > first
  int32_t epoch = 0;  // its position in Lifetimes::epochs
  bool until_freed = false;

  // The op that ends the period: the next use, or the last op before the tensor is freed.
  int64_t deadline() const { return until_freed ? end - 1 : end; }

  bool operator==(const InactivePeriod&) const = default;
};

// The inactive periods of a tensor between two writes of it, in time order. A copy that is made in
// one of them stays valid in the later ones.
struct CopyEpoch {
  TensorIndex tensor = 0;
  bool never_written = false;    // no op writes the tensor: a copy exists from the start
  std::vector<int32_t> periods;  // positions in Lifetimes::periods

  bool operator==(const CopyEpoch&) const = default;
};

struct Lifetimes {
  std::vector<InactivePeriod> periods;   // ordered by tensor, then time; none is empty
  std::vector<CopyEpoch> epochs;         // those with at least one period
  std::vector<int64_t> footprint_bytes;  // per op: all tensors that are alive, and its workspace
  std::vector<int64_t> active_bytes;     // per op: the bytes that must be resident while it runs
};

// Requires validate(trace).ok(). Takes linear time. Tensors that are empty, smaller than
// `smallest_tensor_bytes` or not used by any op have no periods; they count as active at every op
// of their life. A pure function; any thread may call it.
Lifetimes lifetimes_of(const TraceIndex& index, int64_t smallest_tensor_bytes = 0);

// The same; builds the index of `trace` first.
Lifetimes lifetimes_of(const Trace& trace, int64_t smallest_tensor_bytes = 0);

}  // namespace teraio::trace
