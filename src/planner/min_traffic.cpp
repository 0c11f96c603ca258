#include "planner/min_traffic.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

namespace teraio::planner {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Tensors by the time of their next event, the latest on top. Entries can be outdated.
using Latest = std::priority_queue<std::pair<int64_t, int32_t>>;

// Counts reads, forwards in time: evicts the tensor with the farthest next use.
class ReadCounter {
 public:
  ReadCounter(const trace::TraceIndex& index, int64_t budget_bytes, int64_t first)
      : index_(index),
        budget_bytes_(budget_bytes),
        op_count_(static_cast<int64_t>(index.op_count())),
        now_(first),
        resident_bytes_(index.tensor_count()),
        next_use_(index.tensor_count(), kNever),
        use_position_(index.tensor_count()) {
    const auto op = static_cast<trace::OpIndex>(first % op_count_);
    for (size_t i = 0; i < index.tensor_count(); ++i) {
      const auto tensor = static_cast<trace::TensorIndex>(i);
      if (index.exists_before(tensor, op)) enter(tensor, op);
    }
  }

  // Runs the next op and returns the bytes read so far.
  int64_t step() {
    const auto op = static_cast<trace::OpIndex>(now_ % op_count_);
    for (trace::TensorIndex tensor : index_.births[op]) enter(tensor, op);
    for (trace::TensorIndex tensor : index_.active[op]) load(tensor);
    make_room(index_.workspace_bytes[op]);
    for (trace::TensorIndex tensor : index_.active[op]) advance(tensor);
    for (trace::TensorIndex tensor : index_.deaths[op]) release(tensor);
    ++now_;
    return read_bytes_;
  }

 private:
  void enter(trace::TensorIndex tensor, trace::OpIndex op) {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    uint32_t position = 0;
    while (position < uses.size() && uses[position].op < op) ++position;
    use_position_[tensor] = position;
    resident_bytes_[tensor] = index_.size_bytes[tensor];
    device_bytes_ += index_.size_bytes[tensor];
    next_use_[tensor] = use_time(tensor);
    wrap(tensor);
    latest_.emplace(next_use_[tensor], tensor);
  }

  // After its last use, the next use of a persistent tensor is its first one.
  void wrap(trace::TensorIndex tensor) {
    const bool passed_all = use_position_[tensor] >= index_.uses[tensor].size();
    if (passed_all && index_.persistent[tensor]) use_position_[tensor] = 0;
  }

  int64_t use_time(trace::TensorIndex tensor) const {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    const int64_t start = now_ - now_ % op_count_;
    if (use_position_[tensor] < uses.size()) return start + uses[use_position_[tensor]].op;
    if (!index_.persistent[tensor] || uses.empty()) return kNever;
    return start + op_count_ + uses.front().op;
  }

  void load(trace::TensorIndex tensor) {
    const int64_t missing = index_.size_bytes[tensor] - resident_bytes_[tensor];
    resident_bytes_[tensor] += missing;
    device_bytes_ += missing;
    read_bytes_ += missing;
  }

  void make_room(int64_t workspace_bytes) {
    while (device_bytes_ + workspace_bytes > budget_bytes_ && !latest_.empty()) {
      const auto [time, tensor] = latest_.top();
      if (time == next_use_[tensor] && time <= now_) return;  // only active tensors are left
      const int64_t excess = device_bytes_ + workspace_bytes - budget_bytes_;
      if (time == next_use_[tensor]) evict(tensor, excess);
      if (time != next_use_[tensor] || resident_bytes_[tensor] == 0) latest_.pop();
    }
  }

  void evict(trace::TensorIndex tensor, int64_t excess) {
    const int64_t bytes = std::min(excess, resident_bytes_[tensor]);
    resident_bytes_[tensor] -= bytes;
    device_bytes_ -= bytes;
  }

  void advance(trace::TensorIndex tensor) {
    ++use_position_[tensor];
    next_use_[tensor] = use_time(tensor);
    wrap(tensor);
    latest_.emplace(next_use_[tensor], tensor);
  }

  void release(trace::TensorIndex tensor) {
    device_bytes_ -= resident_bytes_[tensor];
    resident_bytes_[tensor] = 0;
    next_use_[tensor] = -1;  // outdates its entries
  }

  const trace::TraceIndex& index_;
  const int64_t budget_bytes_;
  const int64_t op_count_;
  int64_t now_;
  int64_t device_bytes_ = 0;
  int64_t read_bytes_ = 0;
  Latest latest_;
  std::vector<int64_t> resident_bytes_;
  std::vector<int64_t> next_use_;
  std::vector<uint32_t> use_position_;
};

// Counts writes, backwards in time. Each version of a tensor, from the op that wrote it to the next
// op that overwrites it or to its death, is an item. Going backwards, the item appears at its end
// and disappears at the op that wrote it. An item that is offloaded in between must be written
// once, after that op.
class WriteCounter {
 public:
  WriteCounter(const trace::TraceIndex& index, int64_t budget_bytes, int64_t last)
      : index_(index),
        budget_bytes_(budget_bytes),
        op_count_(static_cast<int64_t>(index.op_count())),
        now_(last),
        offloaded_bytes_(index.tensor_count()),
        made_at_(index.tensor_count(), kNever),
        in_sight_(index.tensor_count()) {
    const auto next = static_cast<trace::OpIndex>(last % op_count_);
    for (size_t i = 0; i < index.tensor_count(); ++i) {
      const auto tensor = static_cast<trace::TensorIndex>(i);
      if (index.exists_before(tensor, next)) enter(tensor, now_);
    }
  }

  // Goes back over one op and returns the bytes written from there to the end.
  int64_t step() {
    --now_;
    const auto op = static_cast<trace::OpIndex>(in_one_iteration(now_));
    for (trace::TensorIndex tensor : index_.deaths[op])
      if (!in_sight_[tensor]) enter(tensor, now_ + 1);
    int64_t needed_bytes = index_.workspace_bytes[op];
    for (trace::TensorIndex tensor : index_.active[op]) needed_bytes += offloaded_bytes_[tensor];
    make_room(op, needed_bytes);
    for (trace::TensorIndex tensor : index_.active[op])
      if (made_at_[tensor] == now_) pass_making(tensor);
    for (trace::TensorIndex tensor : index_.births[op]) release(tensor);
    return written_bytes_;
  }

 private:
  void enter(trace::TensorIndex tensor, int64_t before) {
    in_sight_[tensor] = true;
    device_bytes_ += index_.size_bytes[tensor];
    find_making(tensor, before);
  }

  void find_making(trace::TensorIndex tensor, int64_t before) {
    made_at_[tensor] = last_write(tensor, before);
    earliest_.emplace(-made_at_[tensor], tensor);
  }

  // Returns the last op before `before` that writes the tensor; the earliest possible time when
  // there is none.
  int64_t last_write(trace::TensorIndex tensor, int64_t before) const {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    const int64_t in_iteration = in_one_iteration(before - 1) + 1;
    const int64_t start = before - in_iteration;
    for (size_t i = uses.size(); i-- > 0;)
      if (uses[i].writes && uses[i].op < in_iteration) return start + uses[i].op;
    if (!index_.persistent[tensor]) return -kNever;
    for (size_t i = uses.size(); i-- > 0;)
      if (uses[i].writes) return start - op_count_ + uses[i].op;
    return -kNever;
  }

  int64_t in_one_iteration(int64_t op) const { return ((op % op_count_) + op_count_) % op_count_; }

  void make_room(trace::OpIndex op, int64_t needed_bytes) {
    deferred_.clear();
    while (device_bytes_ + needed_bytes > budget_bytes_ && !earliest_.empty()) {
      const auto [time, tensor] = earliest_.top();
      if (-time != made_at_[tensor] || !in_sight_[tensor]) {
        earliest_.pop();
      } else if (is_active(op, tensor)) {
        deferred_.push_back(tensor);
        earliest_.pop();
      } else {
        const int64_t here = index_.size_bytes[tensor] - offloaded_bytes_[tensor];
        const int64_t bytes = std::min(here, device_bytes_ + needed_bytes - budget_bytes_);
        offloaded_bytes_[tensor] += bytes;
        device_bytes_ -= bytes;
        if (bytes == here) earliest_.pop();
      }
    }
    for (trace::TensorIndex tensor : deferred_) earliest_.emplace(-made_at_[tensor], tensor);
  }

  bool is_active(trace::OpIndex op, trace::TensorIndex tensor) const {
    const std::span<const trace::TensorIndex> active = index_.active[op];
    return std::find(active.begin(), active.end(), tensor) != active.end();
  }

  void pass_making(trace::TensorIndex tensor) {
    written_bytes_ += offloaded_bytes_[tensor];
    device_bytes_ += offloaded_bytes_[tensor];
    offloaded_bytes_[tensor] = 0;
    find_making(tensor, now_);
  }

  void release(trace::TensorIndex tensor) {
    if (!in_sight_[tensor]) return;
    device_bytes_ -= index_.size_bytes[tensor] - offloaded_bytes_[tensor];
    offloaded_bytes_[tensor] = 0;
    in_sight_[tensor] = false;
    made_at_[tensor] = kNever;
  }

  const trace::TraceIndex& index_;
  const int64_t budget_bytes_;
  const int64_t op_count_;
  int64_t now_;
  int64_t device_bytes_ = 0;
  int64_t written_bytes_ = 0;
  Latest earliest_;  // by the negated time of the write
  std::vector<trace::TensorIndex> deferred_;
  std::vector<int64_t> offloaded_bytes_;
  std::vector<int64_t> made_at_;
  std::vector<uint8_t> in_sight_;
};

}  // namespace

std::vector<int64_t> min_reads(const trace::TraceIndex& index, int64_t budget_bytes, int64_t first,
                               int64_t op_count) {
  ReadCounter counter(index, budget_bytes, first);
  std::vector<int64_t> reads{0};
  counter.step();  // the tensors that op `first` uses may be there already
  for (int64_t j = 0; j < op_count; ++j) reads.push_back(counter.step());
  return reads;
}

std::vector<int64_t> min_writes(const trace::TraceIndex& index, int64_t budget_bytes, int64_t last,
                                int64_t op_count) {
  WriteCounter counter(index, budget_bytes, last);
  std::vector<int64_t> writes{0};
  for (int64_t j = 0; j < op_count; ++j) writes.push_back(counter.step());
  return writes;
}

}  // namespace teraio::planner
