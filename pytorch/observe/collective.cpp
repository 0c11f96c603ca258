#include "observe/collective.h"

#include <ATen/core/ivalue.h>
#include <pybind11/pybind11.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "observe/op_pins.h"
#include "op_error.h"
#include "storages/storage_swap.h"
#include "storages/storage_walk.h"
#include "storages/tensor_handle.h"

namespace teraio::pytorch {
namespace {

using WorkReference = c10::intrusive_ptr<c10d::Work>;
using ProcessGroupReference = c10::intrusive_ptr<c10d::ProcessGroup>;

struct UnderWay {
  WorkReference work;  // null: of a group that has not ended
  std::shared_ptr<runtime::Runtime> runtime;
  std::vector<engine::LiveTensor*> held;
  bool has_to_complete = false;

  bool is_over() const {
    return work.use_count() == 1 && (!has_to_complete || work->isCompleted());
  }

  void release() {
    // The Work is dropped before its operands are unpinned, because its destructor may still use
    // them.
    work.reset();
    for (engine::LiveTensor* tensor : held) runtime->unpin(tensor, /*is_write=*/true);
  }
};

// The collectives under way. take_if() returns them to the caller, which drops their Works without
// the lock: a Work's destructor may free storages.
class Collectives {
 public:
  void add(UnderWay collective) {
    const std::lock_guard lock(mutex_);
    under_way_.push_back(std::move(collective));
    has_collectives_under_way.store(true, std::memory_order_release);
  }

  // Groups are those of the calling thread.
  void begin_group() {
    const std::lock_guard lock(mutex_);
    groups_.try_emplace(std::this_thread::get_id());
  }

  // Takes what `collective` holds into the group. Returns false when there is none.
  bool add_to_group(UnderWay& collective) {
    const std::lock_guard lock(mutex_);
    const auto group = groups_.find(std::this_thread::get_id());
    if (group == groups_.end()) return false;
    group->second.push_back(std::move(collective));
    return true;
  }

  std::vector<UnderWay> take_group() {
    const std::lock_guard lock(mutex_);
    const auto group = groups_.extract(std::this_thread::get_id());
    return group.empty() ? std::vector<UnderWay>{} : std::move(group.mapped());
  }

  std::vector<UnderWay> take_groups() {
    const std::lock_guard lock(mutex_);
    std::vector<UnderWay> result;
    for (auto& [thread, group] : std::exchange(groups_, {}))
      std::move(group.begin(), group.end(), std::back_inserter(result));
    return result;
  }

  template <typename IsWanted>
  std::vector<UnderWay> take_if(IsWanted is_wanted) {
    const std::lock_guard lock(mutex_);
    const auto stay = [&](const UnderWay& each) { return !is_wanted(each); };
    const auto taken = std::partition(under_way_.begin(), under_way_.end(), stay);
    std::vector<UnderWay> result(std::make_move_iterator(taken),
                                 std::make_move_iterator(under_way_.end()));
    under_way_.erase(taken, under_way_.end());
    has_collectives_under_way.store(!under_way_.empty(), std::memory_order_release);
    return result;
  }

  int64_t held_bytes() {
    const std::lock_guard lock(mutex_);
    std::unordered_set<const engine::LiveTensor*> tensors;
    for (const UnderWay& each : under_way_) tensors.insert(each.held.begin(), each.held.end());
    for (const auto& [thread, group] : groups_)
      for (const UnderWay& each : group) tensors.insert(each.held.begin(), each.held.end());
    int64_t sum_bytes = 0;
    for (const engine::LiveTensor* tensor : tensors) sum_bytes += size_bytes_of(*tensor);
    return sum_bytes;
  }

 private:
  std::mutex mutex_;
  std::vector<UnderWay> under_way_;
  std::unordered_map<std::thread::id, std::vector<UnderWay>> groups_;
};

Collectives& collectives() {
  static auto* instance = new Collectives();  // Works may outlive static objects
  return *instance;
}

// Visits nested lists, too, which gathers have as arguments.
void visit(StorageWalk& walk, const c10::IValue& value) {
  const bool is_nested =
      value.isList() && !value.toListRef().empty() && value.toListRef().front().isList();
  if (!is_nested) return walk.visit(value, true);
  for (const c10::IValue& element : value.toListRef()) visit(walk, element);
}

// Returns the Work among the op's results. Returns null when there is none or when it is empty,
// which means that the library has ordered the collective with the stream itself.
WorkReference work_in(const torch::jit::Stack& stack, size_t result_count) {
  const size_t count = std::min(result_count, stack.size());
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    if (!value.isCustomClass()) continue;
    if (value.toObjectRef().type() == c10::getCustomClassType<WorkReference>())
      return value.toCustomClass<c10d::Work>();
  }
  return {};
}

// Returns whether the library may drop its references to a Work before the collective is over. The
// answer is true for a GPU collective whose arguments name no process group.
bool leaves_works(const ActiveSession& session, const torch::jit::Stack& stack, size_t first) {
  const c10::Device device = session.backend->torch_device();
  if (device.is_cpu()) return false;
  for (size_t i = first; i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    if (!value.isCustomClass()) continue;
    if (value.toObjectRef().type() != c10::getCustomClassType<ProcessGroupReference>()) continue;
    const auto group = value.toCustomClass<c10d::ProcessGroup>();
    return group->getBackend(device.type())->getBackendName() != "gloo";
  }
  return true;
}

std::vector<UnderWay> take_ended() {
  return collectives().take_if([](const UnderWay& each) { return each.is_over(); });
}

void release(std::vector<UnderWay> ended) {
  for (UnderWay& collective : ended) collective.release();
}

}  // namespace

CollectiveOperands::CollectiveOperands(ActiveSession& session, const OpInfo& info,
                                       const torch::jit::Stack& stack)
    : session_(session), info_(info) {
  engine::OpFrame frame;
  StorageWalk walk(session, frame, 0, OpSide::kNestedArguments);
  const size_t first = stack.size() - info.argument_count;
  for (size_t i = 0; i < info.argument_count; ++i) visit(walk, stack[first + i]);
  if (!frame.uses.empty()) has_to_complete_ = leaves_works(session, stack, first);
  const StorageReferenceGuard guard;
  for (const engine::Use& use : frame.uses) {
    if (const Status status = session.runtime->pin(use.tensor, /*is_write=*/true); !status.ok()) {
      for (engine::LiveTensor* tensor : held_) session.runtime->unpin(tensor, /*is_write=*/true);
      throw_status(status, info.name);
    }
    held_.push_back(use.tensor);
  }
  order_this_stream(session, info, frame.uses);
}

CollectiveOperands::~CollectiveOperands() {
  for (engine::LiveTensor* tensor : held_) session_.runtime->unpin(tensor, /*is_write=*/true);
}

void CollectiveOperands::keep_until_over(const torch::jit::Stack& stack) {
  if (held_.empty()) return;
  UnderWay collective = {{}, session_.runtime, held_, has_to_complete_};
  if (!collectives().add_to_group(collective)) {
    collective.work = work_in(stack, info_.return_count);
    if (!collective.work) return;
    collectives().add(std::move(collective));
  }
  held_.clear();
}

void begin_coalescing() { collectives().begin_group(); }

// A group's operands are of one session: the end of a session releases them.
void end_coalescing(WorkReference work) {
  std::vector<UnderWay> group = collectives().take_group();
  if (group.empty() || !work) return release(std::move(group));
  UnderWay& whole = group.front();
  for (UnderWay& each : group) {
    if (&each == &whole) continue;
    whole.held.insert(whole.held.end(), each.held.begin(), each.held.end());
    whole.has_to_complete |= each.has_to_complete;
  }
  whole.work = std::move(work);
  collectives().add(std::move(whole));
}

void fail_coalescing() {
  for (const UnderWay& each : collectives().take_group())
    for (engine::LiveTensor* tensor : each.held) {
      (void)each.runtime->pin_permanently(tensor);
      each.runtime->unpin(tensor, /*is_write=*/true);
    }
}

void release_ended_collectives() { release(take_ended()); }

// Libraries tell that a collective is complete, but not that they have dropped its Work.
bool wait_for_a_collective() {
  std::optional<pybind11::gil_scoped_release> no_gil;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (has_collectives_under_way.load(std::memory_order_acquire)) {
    std::vector<UnderWay> ended = take_ended();
    if (!ended.empty()) {
      release(std::move(ended));
      return true;
    }
    if (std::chrono::steady_clock::now() > end) return false;
    if (!no_gil && PyGILState_Check() != 0) no_gil.emplace();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return false;
}

int64_t collective_bytes() { return collectives().held_bytes(); }

void forget_collectives() {
  release(collectives().take_if([](const UnderWay&) { return true; }));
  release(collectives().take_groups());
}

}  // namespace teraio::pytorch
