#include "trace/lifetimes.h"

#include <algorithm>
#include <utility>

namespace teraio::trace {
namespace {

struct Use {
  OpIndex op = 0;
  bool writes = false;
};

struct Life {
  std::vector<Use> uses;
  OpIndex freed_at = -1;
};

std::vector<Life> lives_of(const Trace& trace) {
  std::vector<Life> lives(trace.tensors.size());
  for (size_t k = 0; k < trace.ops.size(); ++k) {
    const OpIndex op = static_cast<OpIndex>(k);
    for (TensorIndex tensor : trace.ops[k].reads) lives[tensor].uses.push_back({op, false});
    for (TensorIndex tensor : trace.ops[k].writes) lives[tensor].uses.push_back({op, true});
    for (TensorIndex tensor : trace.ops[k].frees) lives[tensor].freed_at = op;
  }
  return lives;
}

class Builder {
 public:
  Builder(const Trace& trace, int64_t smallest_tensor_bytes)
      : trace_(trace), smallest_tensor_bytes_(smallest_tensor_bytes) {
    result_.footprint_bytes.resize(trace.ops.size() + 1);
    result_.active_bytes.resize(trace.ops.size() + 1);
  }

  Lifetimes run() {
    const std::vector<Life> lives = lives_of(trace_);
    for (size_t i = 0; i < lives.size(); ++i) add_tensor(static_cast<TensorIndex>(i), lives[i]);
    finish(result_.footprint_bytes);
    finish(result_.active_bytes);
    return std::move(result_);
  }

 private:
  int64_t op_count() const { return static_cast<int64_t>(trace_.ops.size()); }

  void add_tensor(TensorIndex index, const Life& life) {
    const Tensor& tensor = trace_.tensors[index];
    if (life.uses.empty() && !tensor.persistent) return;
    const int64_t born = tensor.persistent ? 0 : life.uses.front().op;
    const int64_t dead =
        tensor.persistent ? op_count() : std::max(life.uses.back().op, life.freed_at) + 1;
    add(result_.footprint_bytes, born, dead, tensor.size_bytes);
    if (life.uses.empty() || tensor.size_bytes < std::max<int64_t>(smallest_tensor_bytes_, 1)) {
      add(result_.active_bytes, born, dead, tensor.size_bytes);
      return;
    }
    for (const Use& use : life.uses)
      add(result_.active_bytes, use.op, use.op + 1, tensor.size_bytes);
    add_periods(index, life.uses, dead);
  }

  static void add(std::vector<int64_t>& steps, int64_t first, int64_t end, int64_t bytes) {
    steps[first] += bytes;
    steps[end] -= bytes;
  }

  // Starts behind a write, so that every epoch is met as a whole.
  void add_periods(TensorIndex tensor, const std::vector<Use>& uses, int64_t dead) {
    const bool persistent = trace_.tensors[tensor].persistent;
    const size_t count = uses.size();
    size_t start = 0;
    while (persistent && start < count && !uses[start].writes) ++start;
    const bool never_written = persistent && start == count;
    if (never_written) start = 0;
    bool open = false;
    for (size_t i = 0; i < count; ++i) {
      const size_t from = (start + i) % count;
      open = open && !uses[from].writes;
      const bool is_last = from + 1 == count;
      const int64_t after_last = persistent ? op_count() + uses.front().op : dead;
      const int64_t first = uses[from].op + 1;
      const int64_t end = is_last ? after_last : uses[from + 1].op;
      if (end <= first) continue;
      add_period({tensor, first, end, 0, is_last && !persistent}, never_written, open);
    }
  }

  void add_period(InactivePeriod period, bool never_written, bool& open) {
    if (!open) result_.epochs.push_back({period.tensor, never_written, {}});
    open = true;
    period.epoch = static_cast<int32_t>(result_.epochs.size()) - 1;
    result_.epochs.back().periods.push_back(static_cast<int32_t>(result_.periods.size()));
    result_.periods.push_back(period);
  }

  void finish(std::vector<int64_t>& steps) const {
    for (size_t k = 1; k < steps.size(); ++k) steps[k] += steps[k - 1];
    steps.pop_back();
    for (size_t k = 0; k < steps.size(); ++k) steps[k] += trace_.ops[k].workspace_bytes;
  }

  const Trace& trace_;
  const int64_t smallest_tensor_bytes_;
  Lifetimes result_;
};

}  // namespace

Lifetimes lifetimes_of(const Trace& trace, int64_t smallest_tensor_bytes) {
  return Builder(trace, smallest_tensor_bytes).run();
}

}  // namespace teraio::trace
