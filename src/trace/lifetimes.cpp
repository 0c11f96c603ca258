#include "trace/lifetimes.h"

#include <algorithm>
#include <span>
#include <utility>

namespace teraio::trace {
namespace {

class Builder {
 public:
  Builder(const TraceIndex& index, int64_t smallest_tensor_bytes)
      : index_(index), smallest_tensor_bytes_(std::max<int64_t>(smallest_tensor_bytes, 1)) {
    result_.footprint_bytes.resize(index.op_count() + 1);
    result_.active_bytes.resize(index.op_count() + 1);
  }

  Lifetimes run() {
    for (size_t i = 0; i < index_.tensor_count(); ++i) add_tensor(static_cast<TensorIndex>(i));
    finish(result_.footprint_bytes);
    finish(result_.active_bytes);
    return std::move(result_);
  }

 private:
  int64_t op_count() const { return static_cast<int64_t>(index_.op_count()); }

  void add_tensor(TensorIndex tensor) {
    const std::span<const TensorUse> uses = index_.uses[tensor];
    const int64_t size_bytes = index_.size_bytes[tensor];
    const int64_t born = index_.first_op[tensor];
    const int64_t dead = index_.last_op[tensor] + 1;
    add(result_.footprint_bytes, born, dead, size_bytes);
    if (uses.empty() || size_bytes < smallest_tensor_bytes_) {
      add(result_.active_bytes, born, dead, size_bytes);
      return;
    }
    for (const TensorUse& use : uses) add(result_.active_bytes, use.op, use.op + 1, size_bytes);
    add_periods(tensor, uses, dead);
  }

  static void add(std::vector<int64_t>& steps, int64_t first, int64_t end, int64_t bytes) {
    steps[first] += bytes;
    steps[end] -= bytes;
  }

  // For a persistent tensor that an op writes, the walk starts at the first write, so that the end
  // of the iteration splits no epoch.
  void add_periods(TensorIndex tensor, std::span<const TensorUse> uses, int64_t dead) {
    const bool persistent = index_.persistent[tensor];
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
    for (size_t k = 0; k < steps.size(); ++k) steps[k] += index_.workspace_bytes[k];
  }

  const TraceIndex& index_;
  const int64_t smallest_tensor_bytes_;
  Lifetimes result_;
};

}  // namespace

Lifetimes lifetimes_of(const TraceIndex& index, int64_t smallest_tensor_bytes) {
  return Builder(index, smallest_tensor_bytes).run();
}

Lifetimes lifetimes_of(const Trace& trace, int64_t smallest_tensor_bytes) {
  return lifetimes_of(TraceIndex(trace), smallest_tensor_bytes);
}

}  // namespace teraio::trace
