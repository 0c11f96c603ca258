#include "planner/min_traffic.h"

#include <algorithm>
#include <limits>
#include <span>

#include "planner/op_set.h"

namespace teraio::planner {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kGone = -1;

// Counts reads, forwards in time: evicts the tensor with the farthest next use. Of those with the
// same next use, it does not matter which.
class ReadCounter {
 public:
  // At most `step_count` steps are made.
  ReadCounter(const trace::TraceIndex& index, int64_t budget_bytes, int64_t first,
              int64_t step_count)
      : index_(index),
        budget_bytes_(budget_bytes),
        op_count_(static_cast<int64_t>(index.op_count())),
        now_(first),
        next_uses_(first + step_count + op_count_ + 1),
        resident_bytes_(index.tensor_count()),
        next_use_(index.tensor_count(), kGone),
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
    for (trace::TensorIndex tensor : index_.active[op]) {
      ++use_position_[tensor];
      find_next_use(tensor);
    }
    for (trace::TensorIndex tensor : index_.deaths[op]) release(tensor);
    ++now_;
    return read_bytes_;
  }

 private:
  void enter(trace::TensorIndex tensor, trace::OpIndex op) {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    const auto next = std::ranges::lower_bound(uses, op, {}, &trace::TensorUse::op);
    use_position_[tensor] = static_cast<uint32_t>(next - uses.begin());
    resident_bytes_[tensor] = index_.size_bytes[tensor];
    device_bytes_ += index_.size_bytes[tensor];
    find_next_use(tensor);
  }

  // After its last use, the next use of a persistent tensor is its first one.
  void find_next_use(trace::TensorIndex tensor) {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    int64_t start = now_ - now_ % op_count_;
    uint32_t& position = use_position_[tensor];
    if (position >= uses.size() && index_.persistent[tensor]) {
      position = 0;
      start += op_count_;
    }
    if (position >= uses.size()) {
      next_use_[tensor] = kNever;
      unused_.push_back(tensor);
    } else {
      next_use_[tensor] = start + uses[position].op;
      next_uses_.insert(next_use_[tensor]);
    }
  }

  void load(trace::TensorIndex tensor) {
    const int64_t missing = index_.size_bytes[tensor] - resident_bytes_[tensor];
    resident_bytes_[tensor] += missing;
    device_bytes_ += missing;
    read_bytes_ += missing;
  }

  void make_room(int64_t workspace_bytes) {
    int64_t excess_bytes = device_bytes_ + workspace_bytes - budget_bytes_;
    while (excess_bytes > 0 && !unused_.empty()) {
      excess_bytes -= evict(unused_.back(), kNever, excess_bytes);
      if (excess_bytes > 0) unused_.pop_back();
    }
    while (excess_bytes > 0) {
      const int64_t farthest = next_uses_.previous(next_uses_.op_count() - 1);
      if (farthest <= now_) return;  // only active tensors are left
      for (trace::TensorIndex tensor : index_.active[farthest % op_count_])
        excess_bytes -= evict(tensor, farthest, excess_bytes);
      if (excess_bytes > 0) next_uses_.erase(farthest);
    }
  }

  // Evicts up to `bytes` of a tensor whose next use is at `next_use`, and returns how many.
  int64_t evict(trace::TensorIndex tensor, int64_t next_use, int64_t bytes) {
    if (next_use_[tensor] != next_use) return 0;
    bytes = std::min(bytes, resident_bytes_[tensor]);
    resident_bytes_[tensor] -= bytes;
    device_bytes_ -= bytes;
    return bytes;
  }

  void release(trace::TensorIndex tensor) {
    device_bytes_ -= resident_bytes_[tensor];
    resident_bytes_[tensor] = 0;
    next_use_[tensor] = kGone;
  }

  const trace::TraceIndex& index_;
  const int64_t budget_bytes_;
  const int64_t op_count_;
  int64_t now_;
  int64_t device_bytes_ = 0;
  int64_t read_bytes_ = 0;
  OpSet next_uses_;                         // of tensors with bytes on the device; also others
  std::vector<trace::TensorIndex> unused_;  // those that are not used again; also others
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
  // At most `step_count` steps are made.
  WriteCounter(const trace::TraceIndex& index, int64_t budget_bytes, int64_t last,
               int64_t step_count)
      : index_(index),
        budget_bytes_(budget_bytes),
        op_count_(static_cast<int64_t>(index.op_count())),
        // Times begin at the start of an iteration before all that is seen.
        now_(last % op_count_ + (step_count / op_count_ + 2) * op_count_),
        makings_(now_ + 1),
        offloaded_bytes_(index.tensor_count()),
        made_at_(index.tensor_count(), kGone) {
    const auto next = static_cast<trace::OpIndex>(last % op_count_);
    for (size_t i = 0; i < index.tensor_count(); ++i) {
      const auto tensor = static_cast<trace::TensorIndex>(i);
      if (!index.exists_before(tensor, next)) continue;
      device_bytes_ += index.size_bytes[tensor];
      find_making(tensor, now_);
    }
  }

  // Goes back over one op and returns the bytes written from there to the end. What the op makes is
  // on the device while it runs, and so is what it uses for the last time.
  int64_t step() {
    --now_;
    const auto op = static_cast<trace::OpIndex>(now_ % op_count_);
    for (trace::TensorIndex tensor : index_.deaths[op]) {
      if (is_in_sight(tensor)) continue;
      device_bytes_ += index_.size_bytes[tensor];
      if (!ends_with_use(tensor, op)) find_making(tensor, now_ + 1);
    }
    for (trace::TensorIndex tensor : index_.active[op])
      if (made_at_[tensor] == now_) write(tensor);
    make_room(index_.workspace_bytes[op]);
    for (trace::TensorIndex tensor : index_.deaths[op])
      if (!is_in_sight(tensor)) find_making(tensor, now_ + 1);
    for (trace::TensorIndex tensor : index_.active[op])
      if (made_at_[tensor] == now_) find_making(tensor, now_);
    for (trace::TensorIndex tensor : index_.births[op]) release(tensor);
    return written_bytes_;
  }

 private:
  bool is_in_sight(trace::TensorIndex tensor) const { return made_at_[tensor] != kGone; }

  bool ends_with_use(trace::TensorIndex tensor, trace::OpIndex op) const {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    return !uses.empty() && uses.back().op == op;
  }

  // The making is the last op before `before` that writes the tensor; kNever when there is none.
  void find_making(trace::TensorIndex tensor, int64_t before) {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    const int64_t in_iteration = (before - 1) % op_count_ + 1;
    const int64_t start = before - in_iteration;
    made_at_[tensor] = kNever;
    for (size_t i = uses.size(); i-- > 0;)
      if (uses[i].writes && uses[i].op < in_iteration)
        return set_making(tensor, start + uses[i].op);
    if (index_.persistent[tensor])
      for (size_t i = uses.size(); i-- > 0;)
        if (uses[i].writes) return set_making(tensor, start - op_count_ + uses[i].op);
    never_made_.push_back(tensor);
  }

  void set_making(trace::TensorIndex tensor, int64_t time) {
    made_at_[tensor] = time;
    makings_.insert(time);
  }

  // Offloads what was made first, and also what the op reads: were that on the device, then what
  // was made first might be a bad choice. Of items that one op made, it does not matter which.
  void make_room(int64_t workspace_bytes) {
    int64_t excess_bytes = device_bytes_ + workspace_bytes - budget_bytes_;
    while (excess_bytes > 0 && !never_made_.empty()) {
      excess_bytes -= offload(never_made_.back(), kNever, excess_bytes);
      if (excess_bytes > 0) never_made_.pop_back();
    }
    const int64_t none = makings_.op_count();
    while (excess_bytes > 0) {
      const int64_t first = makings_.next(0, none);
      if (first >= now_) return;
      for (trace::TensorIndex tensor : index_.active[first % op_count_])
        excess_bytes -= offload(tensor, first, excess_bytes);
      if (excess_bytes > 0) makings_.erase(first);
    }
  }

  // Offloads up to `bytes` of an item that was made at `made_at`, and returns how many.
  int64_t offload(trace::TensorIndex tensor, int64_t made_at, int64_t bytes) {
    if (made_at_[tensor] != made_at) return 0;
    bytes = std::min(bytes, index_.size_bytes[tensor] - offloaded_bytes_[tensor]);
    offloaded_bytes_[tensor] += bytes;
    device_bytes_ -= bytes;
    return bytes;
  }

  void write(trace::TensorIndex tensor) {
    written_bytes_ += offloaded_bytes_[tensor];
    device_bytes_ += offloaded_bytes_[tensor];
    offloaded_bytes_[tensor] = 0;
  }

  void release(trace::TensorIndex tensor) {
    if (!is_in_sight(tensor)) return;
    device_bytes_ -= index_.size_bytes[tensor] - offloaded_bytes_[tensor];
    offloaded_bytes_[tensor] = 0;
    made_at_[tensor] = kGone;
  }

  const trace::TraceIndex& index_;
  const int64_t budget_bytes_;
  const int64_t op_count_;
  int64_t now_;
  int64_t device_bytes_ = 0;
  int64_t written_bytes_ = 0;
  OpSet makings_;                               // of items on the device; also others
  std::vector<trace::TensorIndex> never_made_;  // those without a making; also others
  std::vector<int64_t> offloaded_bytes_;
  std::vector<int64_t> made_at_;  // of the item in sight
};

}  // namespace

std::vector<int64_t> min_reads(const trace::TraceIndex& index, int64_t budget_bytes, int64_t first,
                               int64_t op_count) {
  ReadCounter counter(index, budget_bytes, first, op_count + 1);
  std::vector<int64_t> reads{0};
  counter.step();  // the tensors that op `first` uses may be there already
  for (int64_t j = 0; j < op_count; ++j) reads.push_back(counter.step());
  return reads;
}

std::vector<int64_t> min_writes(const trace::TraceIndex& index, int64_t budget_bytes, int64_t last,
                                int64_t op_count) {
  WriteCounter counter(index, budget_bytes, last, op_count);
  std::vector<int64_t> writes{0};
  for (int64_t j = 0; j < op_count; ++j) writes.push_back(counter.step());
  return writes;
}

}  // namespace teraio::planner
