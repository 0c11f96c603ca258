// TraceIndex: which op uses, creates and frees which tensor, and when each tensor is alive.
//
//   ops            0   1   2   3   4   5
//   weight P       r   .   .   .   W   .      persistent: alive in 0..5, uses {0 r, 4 W}
//   activation A   .   W   .   r   .   f      alive in 1..5, uses {1 W, 3 r}, freed after 5
//   births             A                      A's bytes are allocated just before op 1 ...
//   deaths                             A      ... and released right after op 5
//
// Lifetimes, the simulator, the planner and the analyses share this index. The validator of plans
// does not use it, because it must be independent of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/flat_lists.h"
#include "trace/trace.h"

namespace teraio::trace {

struct TensorUse {
  OpIndex op = 0;
  bool writes = false;
  bool operator==(const TensorUse&) const = default;
};

// A value that does not refer to the trace. Several threads may read it at once.
struct TraceIndex {
  TraceIndex() = default;
  // Requires validate(trace).ok(). Takes linear time.
  explicit TraceIndex(const Trace& trace);

  size_t op_count() const { return duration_ns.size(); }
  size_t tensor_count() const { return size_bytes.size(); }

  // Whether the tensor exists while `op` runs.
  bool is_alive(TensorIndex tensor, OpIndex op) const {
    return first_op[tensor] <= op && op <= last_op[tensor];
  }
  // Whether the tensor exists right before `op`, without the tensors that `op` allocates.
  bool exists_before(TensorIndex tensor, OpIndex op) const {
    return persistent[tensor] || (first_op[tensor] < op && op <= last_op[tensor]);
  }
  // The number of ops from `op` to the next use of the tensor at or after it. For a persistent
  // tensor the count continues into the next iteration; op_count() when no op uses the tensor
  // again.
  int64_t ops_until_use(TensorIndex tensor, OpIndex op) const;
  // The bytes that op `op` allocates: new tensors and its workspace.
  int64_t allocated_bytes(OpIndex op) const { return birth_bytes[op] + workspace_bytes[op]; }
  // The bytes that op `op` needs on the device at once: the tensors that it uses, and its
  // workspace.
  int64_t active_bytes(OpIndex op) const;

  FlatLists<TensorIndex> active;  // per op: the tensors it reads, then those it writes
  FlatLists<TensorUse> uses;      // per tensor, in execution order
  FlatLists<TensorIndex> births;  // per op: tensors that are not persistent, allocated before it
  FlatLists<TensorIndex> deaths;  // per op: tensors that are not persistent, released after it
  // Per tensor: the first and the last op during which it is alive. The whole iteration for a
  // persistent tensor; an empty range for any other tensor that no op uses.
  std::vector<OpIndex> first_op;
  std::vector<OpIndex> last_op;
  std::vector<int64_t> size_bytes;       // per tensor
  std::vector<uint8_t> persistent;       // per tensor
  std::vector<int64_t> duration_ns;      // per op
  std::vector<int64_t> workspace_bytes;  // per op
  std::vector<int64_t> birth_bytes;      // per op
  std::vector<int64_t> death_bytes;      // per op
  int64_t persistent_bytes = 0;
  int64_t ideal_ns = 0;  // the sum of the ops' durations
};

}  // namespace teraio::trace
