#include "planner/replay_bounds.h"

#include <algorithm>

#include "trace/trace_index.h"

namespace teraio::planner {
namespace {

// Divides the tensors that may be replayed into a tensor for each group of uses without a gap.
class Divider {
 public:
  explicit Divider(const trace::Trace& trace) : index_(trace), divided_(trace) {
    for (const trace::Tensor& tensor : trace.tensors) next_id_ = std::max(next_id_, tensor.id + 1);
  }

  trace::Trace run() {
    // A discard frees any tensor after its last use.
    for (trace::Op& op : divided_.ops) op.frees.clear();
    const auto count = static_cast<trace::TensorIndex>(divided_.tensors.size());
    for (trace::TensorIndex tensor = 0; tensor < count; ++tensor) divide(tensor);
    return std::move(divided_);
  }

 private:
  void divide(trace::TensorIndex tensor) {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    if (index_.persistent[tensor] || uses.empty() || !uses.front().writes) return;
    if (!divided_.ops[uses.front().op].replayable) return;
    trace::TensorIndex life = tensor;
    int writes = 1;
    for (size_t i = 1; i < uses.size(); ++i) {
      const bool has_gap = uses[i].op > uses[i - 1].op + 1;
      if (has_gap && writes == 1) life = new_life(tensor);
      replace(divided_.ops[uses[i].op], tensor, life);
      writes += uses[i].writes;
    }
  }

  trace::TensorIndex new_life(trace::TensorIndex tensor) {
    divided_.tensors.push_back(divided_.tensors[tensor]);
    divided_.tensors.back().id = next_id_++;
    return static_cast<trace::TensorIndex>(divided_.tensors.size()) - 1;
  }

  static void replace(trace::Op& op, trace::TensorIndex tensor, trace::TensorIndex life) {
    std::ranges::replace(op.reads, tensor, life);
    std::ranges::replace(op.writes, tensor, life);
  }

  const trace::TraceIndex index_;
  trace::Trace divided_;
  int64_t next_id_ = 0;
};

}  // namespace

StepBounds lower_bounds_with_replays(const trace::Trace& trace, const hardware::Hardware& hardware,
                                     const plan::Limits& limits, int window_points) {
  return lower_bounds(Divider(trace).run(), hardware, limits, window_points);
}

}  // namespace teraio::planner
