#include "engine/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/failure_details.h"

namespace teraio::engine {

Engine::Engine(const EngineOptions& options)
    : points_(*options.device),
      copies_(options.stores),
      mover_(options, copies_, points_, counters_),
      evictor_(options, live_, copies_, mover_, counters_),
      discards_(options, live_, mover_, evictor_, counters_),
      plan_(options, {live_, counters_, points_, copies_, mover_, evictor_, discards_}),
      swap_(*options.swap) {}

Engine::~Engine() = default;

Result<LiveTensor*> Engine::allocate(int64_t size_bytes) {
  auto tensor = std::make_unique<LiveTensor>();
  const Result<std::byte*> memory =
      evictor_.obtain_memory(size_bytes, plan_.place(), plan_.tenant_at_birth(*tensor, size_bytes));
  if (!memory.ok()) return memory.status();
  tensor->id = next_id_++;
  tensor->size_bytes = size_bytes;
  tensor->memory = *memory;
  tensor->uses.last_op = points_.op();
  tensor->registry_position = live_.size();
  live_.push_back(tensor.get());
  return tensor.release();
}

void Engine::release(LiveTensor* tensor) {
  if (!leave_recipes(*tensor)) {
    tensor->life = Life::kKeptForRecipes;
    detach(*tensor);
    return discards_.keep(*tensor);
  }
  destroy(*tensor);
  free_kept();
}

void Engine::destroy(LiveTensor& tensor) {
  const auto position = tensor.registry_position;
  live_[position] = live_.back();
  live_[position]->registry_position = position;
  live_.pop_back();
  detach(tensor);
  mover_.destroy(tensor);
}

void Engine::detach(LiveTensor& tensor) {
  plan_.forget(tensor);
  evictor_.cancel_eviction(tensor);
  forget_owner(tensor);
}

void Engine::forget_owner(LiveTensor& tensor) {
  tensor.owner = nullptr;
  swap_.forget(tensor);
}

Status Engine::begin_op(trace::OpIndex position, std::span<const Use> inputs) {
  points_.begin_op();
  mover_.take_arrivals();
  evictor_.start_due_evictions();
  TERAIO_RETURN_IF_ERROR(plan_.begin_op(position, inputs));
  if (amounts().discarded_bytes > 0) TERAIO_RETURN_IF_ERROR(discards_.check_readers(inputs));
  for (const Use& use : inputs) {
    evictor_.cancel_eviction(*use.tensor);
    ++use.tensor->uses.pin_count;
  }
  if (Status status = bring_back(inputs); !status.ok()) {
    for (const Use& use : inputs) drop_pin(*use.tensor);
    return status;
  }
  for (const Use& use : inputs) {
    mover_.update_guard(*use.tensor);
    use.tensor->uses.last_op = points_.op();
    note_complete(*use.tensor);
    if (use.is_write) mover_.mark_written(*use.tensor);
  }
  plan_.start_prefetches();
  return {};
}

void Engine::take_arrivals() {
  if (!mover_.take_arrivals()) return;
  evictor_.start_due_evictions();
  plan_.start_prefetches_between_ops();
}

// Other ops may have begun meanwhile.
void Engine::end_op(trace::OpIndex position, std::span<const Use> uses, size_t input_count,
                    std::span<LiveTensor* const> births) {
  for (const Use& use : uses.first(input_count)) drop_pin(*use.tensor);
  for (const Use& use : uses) use.tensor->uses.last_op = points_.op();
  for (LiveTensor* birth : births) birth->uses.last_op = points_.op();
  const bool has_others = births.size() > uses.size() - input_count;
  plan_.end_op(position, uses, has_others ? births : births.first(0));
}

Status Engine::pin(LiveTensor* tensor) {
  mover_.take_arrivals();
  const Use use = {tensor, false};
  evictor_.cancel_eviction(*tensor);
  ++tensor->uses.pin_count;
  Status status = bring_back(std::span(&use, 1));
  if (!status.ok()) --tensor->uses.pin_count;
  mover_.update_guard(*tensor);
  return status;
}

Status Engine::order_stream(void* stream, std::span<const Use> uses) {
  for (const Use& use : uses) TERAIO_RETURN_IF_ERROR(mover_.order_stream(stream, *use.tensor));
  return {};
}

void Engine::unpin(LiveTensor* tensor) {
  TERAIO_CHECK(tensor->uses.pin_count > 0);
  tensor->uses.last_op = points_.op();
  drop_pin(*tensor);
}

void Engine::drop_pin(LiveTensor& tensor) {
  --tensor.uses.pin_count;
  mover_.update_guard(tensor);
}

Status Engine::mark_written(LiveTensor* tensor) {
  const Use use = {tensor, true};
  TERAIO_RETURN_IF_ERROR(discards_.check_readers(std::span(&use, 1)));
  mover_.mark_written(*tensor);
  return {};
}

void Engine::free_kept() {
  while (LiveTensor* tensor = discards_.take_unneeded()) destroy(*tensor);
}

Status Engine::did_not_come(const LiveTensor& tensor, const Status& reason) {
  return reason
      .with_context(fmt::format("tensor {} ({}) did not come back", tensor.id,
                                format_size(tensor.size_bytes)))
      .with_details({tensor_detail(tensor)});
}

Status Engine::request(LiveTensor& tensor) {
  if (tensor.transfer.unanswered != nullptr && tensor.residency == Residency::kLoading)
    return did_not_come(tensor, *tensor.transfer.unanswered);
  if (tensor.residency == Residency::kLoading) {
    if (mover_.order_after_arrival(tensor)) return {};
    ++counters_.late_prefetches;
    mover_.expedite(tensor);
    return {};
  }
  if (tensor.residency == Residency::kDiscarded) return discards_.request(tensor);
  if (tensor.residency != Residency::kOffloaded) return {};
  if (tensor.valid_copy() == nullptr)
    return Status(ErrorCode::kCancelled,
                  fmt::format("tensor {} ({}) was left behind when the session ended", tensor.id,
                              format_size(tensor.size_bytes)));
  const Result<std::byte*> memory =
      evictor_.obtain_memory(tensor.size_bytes, plan_.place(), plan_.tenant(tensor));
  if (!memory.ok()) return memory.status();
  ++counters_.urgent_reads;
  mover_.start_read(tensor, *memory, storage::Priority::kUrgent, 0);
  return {};
}

Status Engine::bring_back(std::span<const Use> uses) {
  TERAIO_RETURN_IF_ERROR(mover_.failure());
  bool all_here = true;
  for (const Use& use : uses) {
    if (use.tensor->residency == Residency::kResident) continue;
    if (use.tensor->residency == Residency::kOffloading) continue;
    all_here = false;
    TERAIO_RETURN_IF_ERROR(request(*use.tensor));
  }
  return all_here ? Status() : wait_until_resident(uses);
}

Status Engine::wait_until_resident(std::span<const Use> uses) {
  for (const Use& use : uses) {
    while (use.tensor->residency == Residency::kLoading &&
           use.tensor->transfer.unanswered == nullptr && !mover_.order_after_arrival(*use.tensor)) {
      TERAIO_RETURN_IF_ERROR(mover_.wait_for_arrival(StallCause::kRead, WaitPolicy::kOfOp));
      plan_.start_prefetches();
    }
    if (use.tensor->residency == Residency::kOffloaded)
      return did_not_come(*use.tensor, mover_.last_error());
    if (use.tensor->residency == Residency::kLoading)
      return did_not_come(*use.tensor, *use.tensor->transfer.unanswered);
  }
  return {};
}

Status Engine::evict_everything() {
  (void)mover_.take_last_error();  // of before
  for (const LiveTensor* tensor : live_)
    while (tensor->transfer.is_copy_pending)
      TERAIO_RETURN_IF_ERROR(mover_.wait_for_arrival(StallCause::kNone, WaitPolicy::kOfOp));
  for (LiveTensor* tensor : std::vector(live_))
    if (evictor_.can_leave(*tensor)) evictor_.evict(*tensor);
  TERAIO_RETURN_IF_ERROR(mover_.wait_until_idle(WaitPolicy::kOfOp));
  return mover_.take_last_error();
}

void Engine::cancel_moves() {
  plan_.cancel_prefetches();
  evictor_.cancel_evictions();
}

Status Engine::restore_all(const Status& replay_failure) {
  cancel_moves();
  (void)mover_.wait_until_idle(
      WaitPolicy::kOfEnd);  // other drives than the one that hangs may answer
  TERAIO_RETURN_IF_ERROR(mover_.failure());
  (void)mover_.take_last_error();                             // of before
  for (LiveTensor* tensor : live_) ++tensor->uses.pin_count;  // none leaves for another
  Status error = replay_failure;
  for (LiveTensor* tensor : live_) {
    if (tensor->residency == Residency::kDiscarded) continue;
    if (Status status = request(*tensor); !status.ok()) error = std::move(status);
  }
  if (Status status = mover_.wait_until_idle(WaitPolicy::kOfEnd); !status.ok())
    error = std::move(status);
  for (LiveTensor* tensor : live_) drop_pin(*tensor);
  TERAIO_RETURN_IF_ERROR(mover_.failure());
  release_copies();
  const std::vector<const LiveTensor*> lost = lost_tensors();
  if (lost.empty()) return {};
  return error_of_lost(lost, error.ok() ? mover_.take_last_error() : error);
}

std::vector<const LiveTensor*> Engine::lost_tensors() const {
  std::vector<const LiveTensor*> lost;
  for (const LiveTensor* tensor : live_)
    if (tensor->residency == Residency::kOffloaded || tensor->residency == Residency::kLoading ||
        tensor->residency == Residency::kDiscarded)
      lost.push_back(tensor);
  return lost;
}

Status Engine::error_of_lost(std::span<const LiveTensor* const> lost, const Status& reason) const {
  constexpr size_t kNamed = 8;
  std::vector<std::string> names;
  for (const LiveTensor* tensor : lost.first(std::min(kNamed, lost.size())))
    names.push_back(fmt::format("{} ({})", tensor->id, format_size(tensor->size_bytes)));
  std::string text = fmt::format("{} of {} tensors did not come back: {}", lost.size(),
                                 live_.size(), fmt::join(names, ", "));
  if (lost.size() > kNamed) text += fmt::format(" and {} others", lost.size() - kNamed);
  return reason.with_context(text);
}

bool Engine::discard_all() {
  cancel_moves();
  const Status status = mover_.wait_until_idle(WaitPolicy::kOfDiscard);
  release_copies();
  if (!status.ok())
    spdlog::warn(
        "teraio: the session ends without its drives: {}. Their room is free when the process has "
        "ended; check them with `teraio doctor --ssd DIR`{}",
        status.message(), detail_lines(status));
  if (amounts().has_transfers()) return false;
  for (LiveTensor* tensor : live_) copies_.release(*tensor);
  copies_.leave_stores();
  return true;
}

void Engine::release_copies() {
  for (LiveTensor* tensor : live_) {
    const bool is_whole = tensor->residency == Residency::kResident && !tensor->is_being_moved();
    if (!is_whole) continue;  // a copy has its only bytes, or a transfer uses it
    copies_.release(*tensor);
    mover_.update_guard(*tensor);
  }
}

bool Engine::leave_stores() {
  TERAIO_CHECK(amounts().offloaded_bytes == 0);
  if (amounts().has_transfers()) return false;
  copies_.leave_stores();
  return true;
}

int64_t Engine::unmovable_bytes() const {
  int64_t total_bytes = 0;
  for (const LiveTensor* tensor : live_) {
    const bool stays_after_write =
        tensor->residency == Residency::kOffloading && tensor->uses.pin_count > 0;
    const bool is_resident = tensor->residency == Residency::kResident;
    if (stays_after_write || (is_resident && !evictor_.can_leave(*tensor)))
      total_bytes += tensor->size_bytes;
  }
  return total_bytes;
}

}  // namespace teraio::engine
