#include "trace/trace_index.h"

#include <algorithm>

namespace teraio::trace {
namespace {

FlatLists<TensorIndex> active_sets(const Trace& trace) {
  return FlatLists<TensorIndex>(trace.ops.size(), [&trace](auto add) {
    for (size_t k = 0; k < trace.ops.size(); ++k) {
      for (TensorIndex tensor : trace.ops[k].reads) add(k, tensor);
      for (TensorIndex tensor : trace.ops[k].writes) add(k, tensor);
    }
  });
}

FlatLists<TensorUse> uses_by_tensor(const Trace& trace) {
  return FlatLists<TensorUse>(trace.tensors.size(), [&trace](auto add) {
    for (size_t k = 0; k < trace.ops.size(); ++k) {
      const auto op = static_cast<OpIndex>(k);
      for (TensorIndex tensor : trace.ops[k].reads) add(tensor, TensorUse{op, false});
      for (TensorIndex tensor : trace.ops[k].writes) add(tensor, TensorUse{op, true});
    }
  });
}

// Groups the tensors that are not persistent by the op in `op_of`. Leaves out tensors that no op
// uses.
FlatLists<TensorIndex> transient_by_op(const TraceIndex& index, const std::vector<OpIndex>& op_of) {
  return FlatLists<TensorIndex>(index.op_count(), [&](auto add) {
    for (size_t tensor = 0; tensor < index.tensor_count(); ++tensor)
      if (!index.persistent[tensor] && !index.uses[tensor].empty())
        add(op_of[tensor], static_cast<TensorIndex>(tensor));
  });
}

std::vector<int64_t> bytes_by_op(const TraceIndex& index, const FlatLists<TensorIndex>& lists) {
  std::vector<int64_t> sums(lists.size());
  for (size_t k = 0; k < lists.size(); ++k)
    for (TensorIndex tensor : lists[k]) sums[k] += index.size_bytes[tensor];
  return sums;
}

}  // namespace

TraceIndex::TraceIndex(const Trace& trace)
    : active(active_sets(trace)),
      uses(uses_by_tensor(trace)),
      first_op(trace.tensors.size(), 0),
      last_op(trace.tensors.size(), -1),
      ideal_ns(trace::ideal_ns(trace)) {
  for (const Tensor& tensor : trace.tensors) {
    size_bytes.push_back(tensor.size_bytes);
    persistent.push_back(tensor.persistent);
    if (tensor.persistent) persistent_bytes += tensor.size_bytes;
  }
  for (const Op& op : trace.ops) {
    duration_ns.push_back(op.duration_ns);
    workspace_bytes.push_back(op.workspace_bytes);
  }
  for (size_t tensor = 0; tensor < tensor_count(); ++tensor) {
    if (persistent[tensor]) last_op[tensor] = static_cast<OpIndex>(op_count()) - 1;
    if (persistent[tensor] || uses[tensor].empty()) continue;
    first_op[tensor] = uses[tensor].front().op;
    last_op[tensor] = uses[tensor].back().op;
  }
  for (size_t k = 0; k < op_count(); ++k)
    for (TensorIndex tensor : trace.ops[k].frees)
      if (!persistent[tensor]) last_op[tensor] = static_cast<OpIndex>(k);
  births = transient_by_op(*this, first_op);
  deaths = transient_by_op(*this, last_op);
  birth_bytes = bytes_by_op(*this, births);
  death_bytes = bytes_by_op(*this, deaths);
}

int64_t TraceIndex::ops_until_use(TensorIndex tensor, OpIndex op) const {
  const std::span<const TensorUse> own = uses[tensor];
  const auto next = std::lower_bound(own.begin(), own.end(), op,
                                     [](const TensorUse& use, OpIndex at) { return use.op < at; });
  const auto count = static_cast<int64_t>(op_count());
  if (next != own.end()) return next->op - op;
  if (own.empty() || !persistent[tensor]) return count;
  return own.front().op + count - op;
}

int64_t TraceIndex::active_bytes(OpIndex op) const {
  int64_t sum = workspace_bytes[op];
  for (const TensorIndex tensor : active[op]) sum += size_bytes[tensor];
  return sum;
}

}  // namespace teraio::trace
