#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace teraio::engine {

Engine::Engine(const EngineOptions& options) : options_(options), copies_(options.stores) {
  TERAIO_CHECK(options.device != nullptr && options.swap != nullptr && options.clock != nullptr);
}

Engine::~Engine() {
  int64_t ignored_ns = 0;
  while (transfers_under_way_ > 0) wait_for_arrival(ignored_ns);
}

Result<LiveTensor*> Engine::allocate(int64_t size_bytes) {
  std::byte* memory = obtain_memory(size_bytes);
  if (memory == nullptr) return memory_error(size_bytes);
  auto tensor = std::make_unique<LiveTensor>();
  tensor->id = next_id_++;
  tensor->size_bytes = size_bytes;
  tensor->memory = memory;
  tensor->last_use = op_count_;
  tensor->registry_position = live_.size();
  live_.push_back(tensor.get());
  return tensor.release();
}

void Engine::release(LiveTensor* tensor) {
  const auto position = tensor->registry_position;
  live_[position] = live_.back();
  live_[position]->registry_position = position;
  live_.pop_back();
  binding_.unbind(*tensor);
  due_prefetches_.remove(*tensor);
  forget_owner(*tensor);
  if (tensor->residency == Residency::kOffloaded) offloaded_bytes_ -= tensor->size_bytes;
  if (tensor->residency == Residency::kOffloading || tensor->residency == Residency::kLoading ||
      tensor->is_copy_pending) {
    tensor->is_dead = true;  // the transfer still uses its memory and extent
    copies_.cancel(*tensor);
    return;
  }
  destroy(*tensor);
}

void Engine::forget_owner(LiveTensor& tensor) {
  tensor.owner = nullptr;
  options_.swap->forget(tensor);
}

Status Engine::begin_op(trace::OpIndex position, std::span<const Use> inputs) {
  ++op_count_;
  if (arrivals_.has_any()) pick_up_arrivals();
  position_ = position;
  if (position != kLost) {
    binding_.bind(schedule_.touches(position), inputs);
    issue_until(position);
  }
  for (const Use& use : inputs) ++use.tensor->pin_count;
  if (Status status = bring_back(inputs); !status.ok()) {
    for (const Use& use : inputs) --use.tensor->pin_count;
    return status;
  }
  for (const Use& use : inputs) {
    use.tensor->last_use = op_count_;
    use.tensor->is_seen_as_input.store(true, std::memory_order_relaxed);
    if (use.is_write) mark_written(use.tensor);
  }
  if (!due_prefetches_.is_empty()) start_due_prefetches();
  return {};
}

void Engine::end_op(trace::OpIndex position, std::span<const Use> uses, size_t input_count) {
  for (const Use& use : uses.first(input_count)) --use.tensor->pin_count;
  for (const Use& use : uses.subspan(input_count)) use.tensor->last_use = op_count_;
  if (position != kLost) binding_.bind(schedule_.touches(position), uses);
}

Status Engine::pin(LiveTensor* tensor) {
  if (arrivals_.has_any()) pick_up_arrivals();
  const Use use = {tensor, false};
  ++tensor->pin_count;
  Status status = bring_back(std::span(&use, 1));
  if (!status.ok()) --tensor->pin_count;
  return status;
}

void Engine::unpin(LiveTensor* tensor) {
  TERAIO_CHECK(tensor->pin_count > 0);
  --tensor->pin_count;
}

void Engine::mark_written(LiveTensor* tensor) {
  TERAIO_CHECK(tensor->memory != nullptr);  // away, its only valid bytes are such a copy
  for (TierCopy& copy : tensor->copies) copy.is_valid = false;
  if (tensor->residency != Residency::kOffloading) return;
  tensor->is_written_meanwhile = true;
  copies_.cancel(*tensor);
}

void Engine::follow(Schedule schedule) {
  due_prefetches_.clear();
  schedule_ = std::move(schedule);
  binding_.follow(schedule_.profile().trace.tensors, live_);
  copies_.lay_out(schedule_, binding_, live_);
  start_iteration();
}

void Engine::start_iteration() {
  iteration_start_ += schedule_.profile().op_count();
  issued_until_ = kLost;
  position_ = schedule_.is_empty() ? kLost : 0;
}

void Engine::issue_until(trace::OpIndex position) {
  while (issued_until_ < position)
    for (const plan::Migration& migration : schedule_.issued_at(++issued_until_)) issue(migration);
}

void Engine::issue(const plan::Migration& migration) {
  LiveTensor* tensor = binding_.find(migration.tensor);
  if (tensor == nullptr) {
    ++counters_.skipped_migrations;
  } else if (migration.action == plan::Action::kPrefetch) {
    issue_prefetch(*tensor, migration);
  } else {
    issue_departure(*tensor, migration);
  }
}

void Engine::issue_departure(LiveTensor& tensor, const plan::Migration& migration) {
  if (!can_leave(tensor)) {
    ++counters_.skipped_migrations;
  } else if (tensor.valid_copy() != nullptr) {
    if (drop(tensor)) ++counters_.planned_drops;
  } else if (start_write(tensor, migration.tier, storage::Priority::kPlanned)) {
    ++counters_.planned_offloads;
  } else {
    ++counters_.skipped_migrations;
  }
}

void Engine::issue_prefetch(LiveTensor& tensor, const plan::Migration& migration) {
  if (tensor.residency == Residency::kOffloading) {
    tensor.is_wanted_back = true;
    return;
  }
  if (tensor.residency != Residency::kOffloaded) return;
  const bool is_in_next_iteration = migration.deadline_op < migration.trigger_op;
  const int64_t op_count = is_in_next_iteration ? schedule_.profile().op_count() : 0;
  due_prefetches_.add(tensor, iteration_start_ + op_count + migration.deadline_op);
}

void Engine::start_due_prefetches() {
  const int64_t kept_bytes = position_ == kLost ? 0 : schedule_.index().allocated_bytes(position_);
  while (!due_prefetches_.is_empty()) {
    LiveTensor& tensor = due_prefetches_.first();
    if (tensor.residency == Residency::kOffloaded) {
      if (free_bytes() < tensor.size_bytes + kept_bytes) return;
      std::byte* memory = options_.device->allocate(tensor.size_bytes);
      if (memory == nullptr) return;
      ++counters_.planned_prefetches;
      start_read(tensor, memory, storage::Priority::kPlanned, tensor.prefetch_deadline);
    }
    due_prefetches_.remove_first();
  }
}

void Engine::request(LiveTensor& tensor, Status& status) {
  if (tensor.residency == Residency::kLoading) {
    if (order_after_arrival(tensor)) return;
    ++counters_.late_prefetches;
    copies_.expedite(tensor);
    return;
  }
  if (tensor.residency != Residency::kOffloaded) return;
  if (tensor.valid_copy() == nullptr) {
    status = Status(ErrorCode::kCancelled,
                    fmt::format("tensor {} ({}) was left behind when the session ended", tensor.id,
                                format_size(tensor.size_bytes)));
    return;
  }
  std::byte* memory = obtain_memory(tensor.size_bytes);
  if (memory == nullptr) {
    status = memory_error(tensor.size_bytes);
    return;
  }
  ++counters_.urgent_reads;
  start_read(tensor, memory, storage::Priority::kUrgent, 0);
}

Status Engine::bring_back(std::span<const Use> uses) {
  Status status = failure_;
  if (!status.ok()) return status;
  bool all_here = true;
  for (const Use& use : uses) {
    if (use.tensor->residency == Residency::kResident) continue;
    if (use.tensor->residency == Residency::kOffloading) continue;
    all_here = false;
    request(*use.tensor, status);
    if (!status.ok()) return status;
  }
  return all_here ? status : wait_until_resident(uses);
}

Status Engine::wait_until_resident(std::span<const Use> uses) {
  for (const Use& use : uses) {
    while (use.tensor->residency == Residency::kLoading && !order_after_arrival(*use.tensor)) {
      wait_for_arrival(counters_.stall_read_ns);
      if (!due_prefetches_.is_empty()) start_due_prefetches();
    }
    if (use.tensor->residency == Residency::kOffloaded)
      return last_error_.with_context(fmt::format(
          "tensor {} ({}) did not come back", use.tensor->id, format_size(use.tensor->size_bytes)));
  }
  return {};
}

Status Engine::evict_everything() {
  last_error_ = Status();
  int64_t ignored_ns = 0;
  for (const LiveTensor* tensor : live_)
    while (tensor->is_copy_pending) wait_for_arrival(ignored_ns);
  for (LiveTensor* tensor : std::vector(live_))
    if (can_leave(*tensor)) evict(*tensor);
  while (transfers_under_way_ > 0) wait_for_arrival(ignored_ns);
  return std::exchange(last_error_, Status());
}

Status Engine::restore_all() {
  due_prefetches_.clear();
  int64_t ignored_ns = 0;
  while (transfers_under_way_ > 0) wait_for_arrival(ignored_ns);
  std::vector<Use> all;
  for (LiveTensor* tensor : live_) all.push_back({tensor, false});
  for (const Use& use : all) ++use.tensor->pin_count;  // none leaves for another
  const Status status = bring_back(all);
  for (const Use& use : all) --use.tensor->pin_count;
  if (!status.ok()) return status;
  while (transfers_under_way_ > 0) wait_for_arrival(ignored_ns);
  TERAIO_RETURN_IF_ERROR(failure_);
  for (LiveTensor* tensor : live_) copies_.release(*tensor);
  return {};
}

void Engine::discard_all() {
  due_prefetches_.clear();
  int64_t ignored_ns = 0;
  while (transfers_under_way_ > 0) wait_for_arrival(ignored_ns);
  for (LiveTensor* tensor : live_) copies_.release(*tensor);
  copies_.leave_stores();
}

void Engine::leave_stores() {
  TERAIO_CHECK(offloaded_bytes_ == 0 && transfers_under_way_ == 0);
  copies_.leave_stores();
}

int64_t Engine::unmovable_bytes() const {
  int64_t total_bytes = 0;
  for (const LiveTensor* tensor : live_)
    if (tensor->residency == Residency::kResident && !can_leave(*tensor))
      total_bytes += tensor->size_bytes;
  return total_bytes;
}

int64_t Engine::permanently_pinned_bytes() const {
  int64_t total_bytes = 0;
  for (const LiveTensor* tensor : live_)
    if (tensor->is_address_known) total_bytes += tensor->size_bytes;
  return total_bytes;
}

}  // namespace teraio::engine
