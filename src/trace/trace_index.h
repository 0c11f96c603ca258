// TraceIndex: a trace as the simulator walks it: flat lists per op and per tensor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trace/trace.h"

namespace teraio::trace {

// Lists of one length each, in one block of memory.
template <typename T>
class FlatLists {
 public:
  FlatLists() = default;

  // `visit(add)` calls add(list, value) for every value; it runs twice, the same each time.
  template <typename Visit>
  FlatLists(size_t list_count, Visit visit) : begins_(list_count + 1) {
    visit([this](size_t list, const T&) { ++begins_[list + 1]; });
    for (size_t i = 0; i < list_count; ++i) begins_[i + 1] += begins_[i];
    values_.resize(begins_.back());
    std::vector<uint32_t> next(begins_.begin(), begins_.end() - 1);
    visit([this, &next](size_t list, const T& value) { values_[next[list]++] = value; });
  }

  std::span<const T> operator[](size_t list) const {
    return {values_.data() + begins_[list], values_.data() + begins_[list + 1]};
  }
  size_t size() const { return begins_.size() - 1; }

 private:
  std::vector<uint32_t> begins_{0};
  std::vector<T> values_;
};

struct TensorUse {
  OpIndex op = 0;
  bool writes = false;
};

// A value without references to the trace.
struct TraceIndex {
  explicit TraceIndex(const Trace& trace);

  size_t op_count() const { return duration_ns.size(); }
  size_t tensor_count() const { return size_bytes.size(); }

  FlatLists<TensorIndex> active;  // per op: reads, then writes
  FlatLists<TensorUse> uses;      // per tensor, in the order of ops
  FlatLists<TensorIndex> births;  // per op
  FlatLists<TensorIndex> deaths;  // per op: released right after it
  std::vector<OpIndex> first_op;  // per tensor; the whole iteration for persistent ones
  std::vector<OpIndex> last_op;
  std::vector<int64_t> size_bytes;
  std::vector<uint8_t> persistent;
  std::vector<int64_t> duration_ns;      // per op
  std::vector<int64_t> workspace_bytes;  // per op
  std::vector<int64_t> birth_bytes;      // per op
  std::vector<int64_t> death_bytes;      // per op
  int64_t persistent_bytes = 0;
  int64_t ideal_ns = 0;
};

}  // namespace teraio::trace
