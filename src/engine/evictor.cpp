#include "engine/evictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "engine/failure_details.h"

namespace teraio::engine {
namespace {

// Bytes that may move on the device per byte that is needed, rather than wait for a better place,
// and rather than leave the device. By the nominal rates of memory and links, moving them takes
// less time than a tier and back; not measured on a GPU.
constexpr int64_t kMovesPerByte = 4;
constexpr int64_t kMovesPerByteOfGpu = 16;
constexpr int64_t kMovesPerByteThatLeaves = 4;  // times as many

// Where enough is free but scattered, a little more makes room for moves: this part of the request
// at a time.
constexpr int64_t kPartThatLeaves = 16;

}  // namespace

Evictor::Evictor(const EngineOptions& options, const std::vector<LiveTensor*>& live,
                 TierCopies& copies, TensorMover& mover, EngineCounters& counters)
    : device_(*options.device),
      smallest_tensor_bytes_(options.smallest_tensor_bytes),
      moves_per_byte_(options.device->is_host_addressable() ? kMovesPerByte : kMovesPerByteOfGpu),
      least_budget_bytes_(options.least_budget_bytes),
      live_(live),
      copies_(copies),
      mover_(mover),
      counters_(counters) {}

bool Evictor::can_move(const LiveTensor& tensor) {
  return tensor.residency == Residency::kResident && tensor.uses.pin_count == 0 &&
         is_complete(tensor) && tensor.owner != nullptr && tensor.life != Life::kDead &&
         !tensor.is_being_moved();
}

std::byte* Evictor::take_free(int64_t size_bytes, const device::Tenant& tenant) {
  std::byte* memory = device_.allocate(size_bytes, device::Effort::kUsual, tenant);
  if (memory != nullptr || !make_room(size_bytes, moves_per_byte_ * size_bytes)) return memory;
  return device_.allocate(size_bytes, device::Effort::kUsual, tenant);
}

// Where there is enough on paper. False: nothing has moved.
bool Evictor::make_room(int64_t size_bytes, int64_t most_bytes) {
  if (size_bytes > free_bytes()) return false;
  const auto may_move = [](void* tenant) {
    return can_move(*static_cast<const LiveTensor*>(tenant));
  };
  return mover_.relocate(device_.find_room(size_bytes, may_move, most_bytes));
}

Result<std::byte*> Evictor::obtain_memory(int64_t size_bytes, const ProgramPlace& place,
                                          const device::Tenant& tenant) {
  while (true) {
    if (std::byte* memory = take_free(size_bytes, tenant)) return memory;
    if (mover_.take_arrivals() || start_due_evictions()) continue;
    TERAIO_RETURN_IF_ERROR(mover_.failure());
    if (evict_for(size_bytes, place)) continue;
    if (mover_.is_idle()) break;
    expedite_writes();
    TERAIO_RETURN_IF_ERROR(mover_.wait_for_arrival(StallCause::kMemory, WaitPolicy::kOfOp));
  }
  make_room(size_bytes, device::kNoBudget);
  if (std::byte* memory = device_.allocate(size_bytes, device::Effort::kUtmost, tenant))
    return memory;
  return memory_error(size_bytes);
}

// An op waits for memory: what frees it goes before reads that nobody waits for yet.
void Evictor::expedite_writes() {
  std::vector<const LiveTensor*> leaving;
  for (const LiveTensor* tensor : live_)
    if (tensor->residency == Residency::kOffloading) leaving.push_back(tensor);
  std::sort(leaving.begin(), leaving.end(), [](const LiveTensor* a, const LiveTensor* b) {
    return a->transfer.id < b->transfer.id;  // as they were issued
  });
  for (const LiveTensor* tensor : leaving) mover_.expedite(*tensor);
}

int64_t Evictor::bytes_leaving() const {
  int64_t leaving_bytes = mover_.amounts().leaving_bytes;
  for (const DueEviction& eviction : due_evictions_)
    if (eviction.tensor->memory != nullptr && eviction.tensor->transfer.unanswered == nullptr)
      leaving_bytes += eviction.tensor->size_bytes;
  return leaving_bytes;
}

// Evicts what must leave besides what is leaving, for an allocation that was refused. Returns true
// if memory is free now. The writes that it started free more when they end.
bool Evictor::evict_for(int64_t size_bytes, const ProgramPlace& place) {
  const bool is_scattered = size_bytes <= free_bytes() && bytes_leaving() == 0;
  if (is_scattered && make_room(size_bytes, kMovesPerByteThatLeaves * moves_per_byte_ * size_bytes))
    return true;
  if (is_scattered)
    return evict_first(in_eviction_order(candidates(), place), size_bytes / kPartThatLeaves + 1);
  const int64_t missing_bytes = size_bytes - std::max<int64_t>(free_bytes(), 0) - bytes_leaving();
  if (missing_bytes <= 0) return false;
  return evict_first(in_eviction_order(candidates(), place), missing_bytes);
}

// There are more victims than are needed: a tier can be full, and an owner can keep its own.
bool Evictor::evict_first(const std::vector<LiveTensor*>& victims, int64_t size_bytes) {
  bool has_freed = false;
  for (LiveTensor* victim : victims) {
    if (size_bytes <= 0) break;
    has_freed |= evict(*victim);
    if (victim->residency != Residency::kResident) size_bytes -= victim->size_bytes;
  }
  return has_freed;
}

bool Evictor::evict(LiveTensor& tensor) {
  if (tensor.valid_copy() != nullptr) {
    if (!mover_.drop(tensor)) return false;
    ++counters_.on_demand_drops;
    return true;
  }
  do {
    for (const plan::Tier tier : {plan::Tier::kHost, plan::Tier::kSsd}) {
      if (!start_write(tensor, tier, storage::Priority::kUrgent)) continue;
      ++counters_.on_demand_offloads;
      return false;
    }
  } while (copies_.give_up_layouts());
  return false;
}

void Evictor::evict_by_plan(LiveTensor& tensor, const plan::Migration& planned) {
  if (is_on_its_way(tensor, planned) && !is_eviction_due(tensor)) {
    due_evictions_.push_back({&tensor, planned});
  } else if (!can_leave(tensor)) {
    ++counters_.skipped_migrations;
  } else if (needs_write(tensor, planned) &&
             start_write(tensor, planned.tier, storage::Priority::kPlanned)) {
    ++counters_.planned_offloads;
  } else if (tensor.valid_copy() == nullptr) {
    ++counters_.skipped_migrations;
  } else if (mover_.drop(tensor)) {
    ++counters_.planned_drops;
  }
}

// To the device: for compute, or to go on to another tier. What is still written to that one goes
// on when it is there.
bool Evictor::is_on_its_way(const LiveTensor& tensor, const plan::Migration& planned) {
  if (tensor.life == Life::kDead) return false;
  if (tensor.transfer.is_copy_pending) return true;
  if (tensor.residency == Residency::kOffloading)
    return planned.action == plan::Action::kOffload && tensor.transfer.tier != planned.tier;
  const bool is_away =
      tensor.residency == Residency::kOffloaded || tensor.residency == Residency::kLoading;
  return is_away && needs_write(tensor, planned);
}

// An offload of the plan goes to its tier although another one has a copy: the plan counts on the
// room that this frees.
bool Evictor::needs_write(const LiveTensor& tensor, const plan::Migration& planned) {
  if (tensor.valid_copy() == nullptr) return true;
  return planned.action == plan::Action::kOffload && !tensor.copy(planned.tier).is_valid;
}

bool Evictor::start_evictions() {
  const std::vector<DueEviction> due = std::exchange(due_evictions_, {});
  for (const DueEviction& eviction : due) {
    if (is_on_its_way(*eviction.tensor, eviction.planned)) {
      due_evictions_.push_back(eviction);
      continue;
    }
    evict_by_plan(*eviction.tensor, eviction.planned);
  }
  return due_evictions_.size() < due.size();
}

bool Evictor::is_eviction_due(const LiveTensor& tensor) const {
  return std::ranges::find(due_evictions_, &tensor, &DueEviction::tensor) != due_evictions_.end();
}

void Evictor::forget_eviction(const LiveTensor& tensor) {
  std::erase_if(due_evictions_, [&](const DueEviction& due) { return due.tensor == &tensor; });
}

// False: no write was started, because the tier takes none or is full.
bool Evictor::start_write(LiveTensor& tensor, plan::Tier tier, storage::Priority priority) {
  if (!copies_.takes_writes(tier)) return false;
  Status room = copies_.reserve(tensor, tier, priority, live_);
  if (room.ok()) {
    copies_.keep_only(tensor, tier);
    mover_.start_write(tensor, tier, priority);
    return true;
  }
  if (tier == plan::Tier::kSsd) mover_.set_last_error(std::move(room));
  return false;
}

std::vector<LiveTensor*> Evictor::candidates() const {
  std::vector<LiveTensor*> candidates;
  for (LiveTensor* tensor : live_)
    if (can_leave(*tensor)) candidates.push_back(tensor);
  return candidates;
}

std::string Evictor::budget_advice(const device::MemoryUsage& usage, int64_t size_bytes) const {
  const int64_t op_bytes = usage.allocated_bytes + align_up(size_bytes, device::kPageBytes);
  const int64_t known_bytes = least_budget_bytes_ ? least_budget_bytes_() : 0;
  const int64_t all_bytes = known_bytes + bytes_that_the_program_holds(live_);
  const std::string known = fmt::format(
      "iterations so far need a budget of {} bytes ({}), with what the program holds on the "
      "device",
      all_bytes, format_size(all_bytes));
  if (known_bytes > 0 && all_bytes > usage.budget_bytes && all_bytes >= op_bytes)
    return "The " + known;
  const std::string advice =
      known_bytes > 0 ? "the " + known
                      : "`teraio suggest --least-budget SCRIPT` finds that of the first steps";
  if (op_bytes > usage.budget_bytes)
    return fmt::format("This op needs a budget of at least {} bytes ({}); {}", op_bytes,
                       format_size(op_bytes), advice);
  return "The rest is in smaller pieces, or holds small tensors and memory of libraries; " + advice;
}

Status Evictor::memory_error(int64_t size_bytes) const {
  const device::MemoryUsage usage = device_.usage();
  std::string message = fmt::format(
      "needs {} more on the device; the budget is {}, of which {} are in use and cannot leave{}. ",
      format_size(size_bytes), format_size(usage.budget_bytes), format_size(usage.allocated_bytes),
      groups_that_stay(live_, smallest_tensor_bytes_));
  message += budget_advice(usage, size_bytes);
  if (mover_.amounts().unanswered_bytes > 0)
    message += fmt::format("; {} are in use by drives that do not answer",
                           format_size(mover_.amounts().unanswered_bytes));
  if (!mover_.last_error().ok())
    message += fmt::format(" (the last transfer failed: {})", mover_.last_error().message());
  return Status(ErrorCode::kOutOfMemory, std::move(message))
      .with_details(
          memory_details(usage, live_, [this](const auto& each) { return can_leave(each); }))
      .with_details(mover_.last_error().details());
}

}  // namespace teraio::engine
