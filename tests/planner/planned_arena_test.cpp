// The allocations of planned steps of real traces, as the simulator times them, in an arena: blocks
// find a place by when they leave, few bytes move, and nothing has to leave the device for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "base/units.h"
#include "device/arena.h"
#include "planner/planned_case.h"
#include "trace/trace_index.h"

namespace teraio::planner {
namespace {

using device::Arena;
using device::Relocation;

constexpr int64_t kPageBytes = 2 * kMiB;
constexpr int kIterations = 4;
constexpr double kHeadroom = .02;              // beyond the peak
constexpr int64_t kMovesPerByte[] = {16, 64};  // as engine::Evictor has them for a GPU
constexpr trace::TensorIndex kWorkspace = -1;

// No memory is behind these addresses.
class Addresses : public device::AddressSpace {
 public:
  explicit Addresses(int64_t size_bytes)
      : AddressSpace(reinterpret_cast<std::byte*>(int64_t{1} << 40), size_bytes, kPageBytes) {}
  bool commit(ByteRange /*range*/) override { return true; }
  bool decommit(ByteRange /*range*/) override { return true; }
};

// A time at which a tensor gets memory, or gives it back. At one time, what leaves goes first.
struct MemoryEvent {
  int64_t time_ns = 0;
  bool is_allocation = false;
  trace::TensorIndex tensor = kWorkspace;
  int64_t size_bytes = 0;

  bool operator<(const MemoryEvent& other) const {
    return std::tie(time_ns, is_allocation) < std::tie(other.time_ns, other.is_allocation);
  }
};

// One simulated step, which repeats.
class PlannedStep {
 public:
  explicit PlannedStep(const testing::PlannedCase& given)
      : index_(given.trace), busy_(index_.tensor_count()) {
    const simulate::Run run = given.run({.recompute = Recompute::kOff});
    step_ns_ = run.step_ns;
    peak_bytes_ = run.device_peak_bytes;
    for (trace::OpIndex op = 0; op < static_cast<trace::OpIndex>(index_.op_count()); ++op)
      add_op(op, run.op_start_ns[op]);
    for (const simulate::TransferRecord& transfer : run.transfers) add_transfer(transfer);
    std::stable_sort(events_.begin(), events_.end());
    leave_out_deaths_elsewhere();
  }

  int64_t step_ns() const { return step_ns_; }
  int64_t peak_bytes() const { return peak_bytes_; }
  const std::vector<MemoryEvent>& events() const { return events_; }
  int64_t size_bytes(trace::TensorIndex tensor) const { return index_.size_bytes[tensor]; }
  // What is on the device when a step begins.
  std::vector<trace::TensorIndex> residents() const {
    std::vector<trace::TensorIndex> residents;
    for (trace::TensorIndex i = 0; i < static_cast<trace::TensorIndex>(index_.tensor_count()); ++i)
      if (index_.persistent[i] && !is_allocated_next(i)) residents.push_back(i);
    return residents;
  }
  // In steps, from the beginning of this one.
  double leaves_at(trace::TensorIndex tensor, int64_t time_ns) const {
    const auto leaves = [&](const MemoryEvent& event) {
      return event.tensor == tensor && !event.is_allocation && event.time_ns > time_ns;
    };
    const auto in_step = std::ranges::find_if(events_, leaves);
    if (in_step != events_.end()) return in_steps(in_step->time_ns);
    time_ns = -1;
    const auto next = std::ranges::find_if(events_, leaves);
    return next == events_.end() ? device::kNever : 1 + in_steps(next->time_ns);
  }
  // An op uses the tensor at this time, or bytes are on their way.
  bool is_busy(trace::TensorIndex tensor, int64_t time_ns) const {
    return std::ranges::any_of(busy_[tensor], [&](const auto& span) {
      return span.first <= time_ns && time_ns <= span.second;
    });
  }

 private:
  double in_steps(int64_t time_ns) const {
    return static_cast<double>(time_ns) / static_cast<double>(step_ns_);
  }
  void add_op(trace::OpIndex op, int64_t start_ns) {
    const int64_t end_ns = start_ns + index_.duration_ns[op];
    for (const trace::TensorIndex tensor : index_.births[op]) add(start_ns, true, tensor);
    for (const trace::TensorIndex tensor : index_.deaths[op]) add(end_ns, false, tensor);
    for (const trace::TensorIndex tensor : index_.active[op])
      busy_[tensor].emplace_back(start_ns, end_ns - 1);
    if (index_.workspace_bytes[op] == 0) return;
    add(start_ns, true, kWorkspace, index_.workspace_bytes[op]);
    add(end_ns, false, kWorkspace, index_.workspace_bytes[op]);
  }
  void add_transfer(const simulate::TransferRecord& transfer) {
    const bool is_read = transfer.action == plan::Action::kPrefetch;
    add(is_read ? transfer.start_ns : transfer.end_ns, is_read, transfer.tensor);
    for (const int64_t shift_ns : {int64_t{0}, step_ns_})
      busy_[transfer.tensor].emplace_back(transfer.start_ns + shift_ns, transfer.end_ns + shift_ns);
  }
  void add(int64_t time_ns, bool is_allocation, trace::TensorIndex tensor, int64_t bytes = 0) {
    if (tensor != kWorkspace) bytes = index_.size_bytes[tensor];
    if (bytes < device::kPageBytes) return;
    events_.push_back({(time_ns + step_ns_) % step_ns_, is_allocation, tensor,
                       align_up(bytes, device::kPageBytes)});
  }
  // What is freed while it is on a tier gives no device memory back.
  void leave_out_deaths_elsewhere() {
    std::vector<bool> is_away(index_.tensor_count());
    std::erase_if(events_, [&](const MemoryEvent& event) {
      if (event.tensor == kWorkspace) return false;
      const bool was_away = is_away[event.tensor];
      is_away[event.tensor] = !event.is_allocation;
      return was_away && !event.is_allocation;
    });
  }
  bool is_allocated_next(trace::TensorIndex tensor) const {
    const auto next = std::ranges::find(events_, tensor, &MemoryEvent::tensor);
    return next != events_.end() && next->is_allocation;
  }

  trace::TraceIndex index_;
  int64_t step_ns_ = 0;
  int64_t peak_bytes_ = 0;
  std::vector<MemoryEvent> events_;
  std::vector<std::vector<std::pair<int64_t, int64_t>>> busy_;  // per tensor
};

// Executes steps, and checks that blocks never overlap.
class PlannedArena {
 public:
  PlannedArena(const PlannedStep& step, int64_t size_bytes)
      : step_(step),
        arena_(std::make_unique<Addresses>(align_up(size_bytes, kPageBytes)), kPageBytes) {
    for (const trace::TensorIndex tensor : step.residents())
      if (step.size_bytes(tensor) >= device::kPageBytes)
        allocate({0, true, tensor, align_up(step.size_bytes(tensor), device::kPageBytes)});
  }

  void run_step() {
    moved_bytes_ = refused_count_ = 0;
    for (const MemoryEvent& event : step_.events()) {
      now_ns_ = event.time_ns;
      if (event.is_allocation)
        allocate(event);
      else
        release(event.tensor);
    }
    ++iteration_;
  }
  int64_t moved_bytes() const { return moved_bytes_; }      // in the last step
  int64_t refused_count() const { return refused_count_; }  // of allocations in the last step

 private:
  struct Resident {
    trace::TensorIndex tensor = 0;
    std::byte* memory = nullptr;
    int64_t size_bytes = 0;
  };

  void allocate(const MemoryEvent& event) {
    Resident& resident = residents_[event.tensor];
    resident = {event.tensor, nullptr, event.size_bytes};
    const double leaves_at =
        event.tensor == kWorkspace ? device::kSoon : step_.leaves_at(event.tensor, event.time_ns);
    const device::Tenant tenant{event.tensor == kWorkspace ? nullptr : &resident,
                                iteration_ + leaves_at};
    resident.memory = arena_.allocate(event.size_bytes, tenant, device::kNoBudget);
    for (const int64_t moves_per_byte : kMovesPerByte) {
      if (resident.memory != nullptr) break;
      make_room(event.size_bytes, moves_per_byte);
      resident.memory = arena_.allocate(event.size_bytes, tenant, device::kNoBudget);
    }
    if (resident.memory == nullptr) ++refused_count_;
    expect_no_overlap(resident);
  }
  void make_room(int64_t size_bytes, int64_t moves_per_byte) {
    const auto may_move = [this](void* tenant) {
      return !step_.is_busy(static_cast<Resident*>(tenant)->tensor, now_ns_);
    };
    const auto moves = arena_.find_room(size_bytes, may_move, moves_per_byte * size_bytes);
    for (const Relocation& move : moves) {
      auto* resident = static_cast<Resident*>(move.tenant);
      ASSERT_EQ(resident->memory, move.from);
      resident->memory = move.to;
      moved_bytes_ += move.size_bytes;
    }
    arena_.relocate(moves);
  }
  void release(trace::TensorIndex tensor) {
    const auto found = residents_.find(tensor);
    if (found == residents_.end() && iteration_ == 0) return;  // of the step before
    ASSERT_TRUE(found != residents_.end());
    if (found->second.memory != nullptr) arena_.release(found->second.memory);
    residents_.erase(found);
  }
  void expect_no_overlap(const Resident& resident) {
    if (resident.memory == nullptr) return;
    for (const auto& [tensor, other] : residents_)
      if (&other != &resident && other.memory != nullptr)
        ASSERT_TRUE(other.memory + other.size_bytes <= resident.memory ||
                    resident.memory + resident.size_bytes <= other.memory);
  }

  const PlannedStep& step_;
  Arena arena_;
  std::map<trace::TensorIndex, Resident> residents_;
  int64_t now_ns_ = 0;
  int64_t moved_bytes_ = 0;
  int64_t refused_count_ = 0;
  int iteration_ = 0;
};

struct TraceInArena {
  const char* trace;
  const char* hardware;
  double moved;  // per step at most, of the peak
};

class PlannedArenaTest : public ::testing::TestWithParam<TraceInArena> {};

TEST_P(PlannedArenaTest, NothingIsRefusedAndLittleMoves) {
  const PlannedStep step(testing::case_of(GetParam().trace, GetParam().hardware));
  const auto peak_bytes = static_cast<double>(step.peak_bytes());
  PlannedArena arena(step, static_cast<int64_t>((1 + kHeadroom) * peak_bytes));
  for (int i = 0; i < kIterations; ++i) {
    arena.run_step();
    EXPECT_EQ(arena.refused_count(), 0);
    EXPECT_LE(static_cast<double>(arena.moved_bytes()) / peak_bytes, GetParam().moved);
  }
}

INSTANTIATE_TEST_SUITE_P(Traces, PlannedArenaTest,
                         ::testing::Values(TraceInArena{"l1b6bf", "h200_half", .5},
                                           TraceInArena{"l1b6bf", "h200_third", 1.2},
                                           TraceInArena{"l8", "h100_ssd", 1.5},
                                           TraceInArena{"VIT-1280", "a100_g10", .1}));

}  // namespace
}  // namespace teraio::planner
