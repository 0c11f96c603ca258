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
#include "engine/timeline.h"

namespace teraio::engine {

Engine::Engine(const EngineOptions& options)
    : points_(*options.device),
      copies_(options.stores),
      mover_(options, copies_, points_, counters_),
      evictor_(options, live_, copies_, mover_, counters_),
      device_(*options.device),
      swap_(*options.swap),
      timeline_(options.timeline) {
  if (options.verify_replays) replay_check_.emplace(device_, counters_);
}

Engine::~Engine() = default;

Result<LiveTensor*> Engine::allocate(int64_t size_bytes) {
  const Result<std::byte*> memory = evictor_.obtain_memory(size_bytes, place());
  if (!memory.ok()) return memory.status();
  auto tensor = std::make_unique<LiveTensor>();
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
    binding_.unbind(*tensor);
    due_prefetches_.remove(*tensor);
    evictor_.cancel_eviction(*tensor);
    forget_owner(*tensor);
    kept_.push_back(tensor);
    return;
  }
  destroy(*tensor);
  if (!kept_.empty()) free_kept();
}

void Engine::destroy(LiveTensor& dead) {
  LiveTensor* tensor = &dead;
  const auto position = tensor->registry_position;
  live_[position] = live_.back();
  live_[position]->registry_position = position;
  live_.pop_back();
  binding_.unbind(*tensor);
  due_prefetches_.remove(*tensor);
  evictor_.cancel_eviction(*tensor);
  forget_owner(*tensor);
  mover_.destroy(*tensor);
}

void Engine::forget_owner(LiveTensor& tensor) {
  tensor.owner = nullptr;
  swap_.forget(tensor);
}

Status Engine::begin_op(trace::OpIndex position, std::span<const Use> inputs) {
  points_.begin_op();
  mover_.take_arrivals();
  evictor_.start_due_evictions();
  position_ = position;
  if (position != iteration::kLost) {
    last_position_ = position;
    binding_.bind(schedule_->touches(position), inputs);
    TERAIO_RETURN_IF_ERROR(issue_until(position));
  }
  if (mover_.amounts().discarded_bytes > 0) TERAIO_RETURN_IF_ERROR(check_readers(inputs));
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
    use.tensor->birth.is_seen_as_input.store(true, std::memory_order_relaxed);
    if (use.is_write) mover_.mark_written(*use.tensor);
  }
  if (!due_prefetches_.is_empty()) start_due_prefetches(position_);
  return {};
}

void Engine::take_arrivals() {
  if (!mover_.take_arrivals()) return;
  evictor_.start_due_evictions();
  if (due_prefetches_.is_empty()) return;
  const bool has_next =
      position_ != iteration::kLost && position_ + 1 < schedule_->profile().op_count();
  start_due_prefetches(has_next ? position_ + 1 : iteration::kLost);
}

void Engine::end_op(trace::OpIndex position, std::span<const Use> uses, size_t input_count) {
  for (const Use& use : uses.first(input_count)) drop_pin(*use.tensor);
  for (const Use& use : uses)
    use.tensor->uses.last_op = points_.op();  // others may have begun since
  if (position != iteration::kLost) binding_.bind(schedule_->touches(position), uses);
}

void Engine::note_used(std::span<LiveTensor* const> births) {
  for (LiveTensor* birth : births) birth->uses.last_op = points_.op();
}

// In another number than the profile has, nothing tells which is which.
void Engine::bind_births(trace::OpIndex position, std::span<const Use> uses,
                         std::span<LiveTensor* const> births) {
  std::vector<Use> others;
  for (LiveTensor* birth : births)
    if (std::ranges::find(uses, birth, &Use::tensor) == uses.end()) others.push_back({birth, true});
  const std::span<const trace::TensorIndex> known = schedule_->births(position);
  if (known.size() == others.size()) binding_.bind(known, others);
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
  TERAIO_RETURN_IF_ERROR(check_readers(std::span(&use, 1)));
  mover_.mark_written(*tensor);
  return {};
}

void Engine::follow(std::shared_ptr<const iteration::Schedule> schedule, trace::OpIndex position,
                    Known known) {
  ++epoch_;
  due_prefetches_.clear();
  evictor_.cancel_evictions();
  const std::shared_ptr<const iteration::Schedule> before =
      std::exchange(schedule_, std::move(schedule));
  if (timeline_ != nullptr) timeline_->follow(schedule_);
  if (known == Known::kTensorsSoFar)
    binding_.follow_from(*before, *schedule_, position, live_);
  else if (known == Known::kPersistentTensors)
    binding_.follow(schedule_->profile().trace.tensors, live_);
  if (known != Known::kAllTensors) planned_recipes_.assign(schedule_->index().tensor_count(), {});
  copies_.forget_layouts();
  iteration_start_ += before->profile().op_count();
  issued_until_ = position - 1;
  due_actions_ = {};
  position_ = schedule_->is_empty() ? iteration::kLost : position;
  last_position_ = position_;
}

// Where a plan has a tensor follows from its last action on it, for a persistent tensor in the
// iteration before when this one has had none yet. What leaves goes first.
void Engine::take_planned_places() {
  const trace::OpIndex position = issued_until_ + 1;
  const trace::TraceIndex& index = schedule_->index();
  std::vector<const plan::Migration*> last_actions(index.tensor_count());
  for (trace::OpIndex op = position; op < schedule_->profile().op_count(); ++op)
    for (const plan::Migration& action : schedule_->issued_at(op))
      if (index.persistent[action.tensor]) last_actions[action.tensor] = &action;
  for (trace::OpIndex op = 0; op < position; ++op)
    for (const plan::Migration& action : schedule_->issued_at(op))
      last_actions[action.tensor] = &action;
  for (const bool is_leaving : {true, false})
    for (size_t i = 0; i < last_actions.size(); ++i) {
      LiveTensor* tensor = binding_.find(static_cast<trace::TensorIndex>(i));
      const plan::Migration* last = last_actions[i];
      if (tensor == nullptr || is_leaving != (last && plan::leaves_device(last->action))) continue;
      if (is_leaving)
        leave_as_planned(*tensor, *last);
      else
        return_as_planned(*tensor, position);
    }
}

// What the plan has discarded is as good where it is.
void Engine::leave_as_planned(LiveTensor& tensor, const plan::Migration& action) {
  if (tensor.residency == Residency::kResident && plan::uses_tier(action.action))
    evictor_.evict_by_plan(tensor, action.tier);
}

void Engine::return_as_planned(LiveTensor& tensor, trace::OpIndex position) {
  if (tensor.residency == Residency::kOffloading) tensor.transfer.want_back();
  if (tensor.residency != Residency::kOffloaded) return;
  const int64_t idle_ops = schedule_->index().ops_until_use(tensor.planned.profile_index, position);
  due_prefetches_.add(tensor, iteration_start_ + position + idle_ops);
}

void Engine::start_iteration() {
  ++epoch_;
  copies_.fail_unanswered();
  iteration_start_ += schedule_->profile().op_count();
  issued_until_ = iteration::kLost;
  due_actions_ = {};
  position_ = schedule_->is_empty() ? iteration::kLost : 0;
  last_position_ = position_;
}

void Engine::go_back(trace::OpIndex position) {
  issued_until_ = std::min(issued_until_, position - 1);
  due_actions_ = {};
}

Status Engine::issue_until(trace::OpIndex position) {
  while (true) {
    while (!due_actions_.empty()) {
      const plan::Migration& migration = due_actions_.front();
      due_actions_ = due_actions_.subspan(1);
      if (migration.action != plan::Action::kRecompute) {
        issue(migration);
      } else if (issued_until_ == position) {  // of ops that were skipped, nothing is replayed
        TERAIO_RETURN_IF_ERROR(prepare_replay(migration));
      }
    }
    if (issued_until_ >= position) return {};
    due_actions_ = schedule_->issued_at(++issued_until_);
  }
}

Status Engine::prepare_replay(const plan::Migration& migration) {
  if (const LiveTensor* tensor = binding_.find(migration.tensor)) {
    if (tensor->residency != Residency::kDiscarded) return {};
    due_replay_ = {tensor->replay.recipe, /*is_planned=*/true, /*is_temporary=*/false};
  } else {
    std::shared_ptr<Recipe> recipe = planned_recipes_[static_cast<size_t>(migration.tensor)].lock();
    if (recipe == nullptr || recipe->temporaries != nullptr || !is_needed(*recipe)) return {};
    recipe->temporary_readers = schedule_->replays_reading(migration.tensor, due_actions_);
    if (recipe->temporary_readers == 0) return {};
    due_replay_ = {std::move(recipe), /*is_planned=*/true, /*is_temporary=*/true};
  }
  return Status(ErrorCode::kReplayDue, "a planned replay is due");
}

Status Engine::replay_due(LiveTensor& tensor) {
  due_replay_ = {tensor.replay.recipe, /*is_planned=*/false, /*is_temporary=*/false};
  return Status(ErrorCode::kReplayDue, fmt::format("tensor {} ({}) was discarded", tensor.id,
                                                   format_size(tensor.size_bytes)));
}

// Before the bytes of inputs change: discarded tensors that need them are made again.
Status Engine::check_readers(std::span<const Use> uses) {
  for (const Use& use : uses) {
    if (!use.is_write || use.tensor->replay.read_by.empty()) continue;
    if (LiveTensor* discarded = find_discarded_reader(*use.tensor)) return replay_due(*discarded);
  }
  return {};
}

void Engine::add_recipe(const OpReplay& replay) {
  const std::shared_ptr<Recipe> recipe =
      engine::add_recipe(replay.op, replay.inputs, replay.results);
  for (const LiveTensor* result : recipe->results)
    if (result != nullptr && result->planned.profile_index >= 0)
      planned_recipes_[static_cast<size_t>(result->planned.profile_index)] = recipe;
}

void Engine::discard(LiveTensor& tensor) {
  const bool can_go = may_discard_ && evictor_.can_leave(tensor) && has_intact_recipe(tensor);
  const bool is_noted = can_go && (!replay_check_ || replay_check_->note(tensor).ok());
  if (is_noted && mover_.discard(tensor)) {
    ++counters_.discards;
  } else {
    ++counters_.skipped_migrations;
  }
}

LiveTensor* Engine::first_discarded(uint64_t least_id) const {
  if (mover_.amounts().discarded_bytes == 0) return nullptr;
  LiveTensor* first = nullptr;
  for (LiveTensor* tensor : live_) {
    if (tensor->residency != Residency::kDiscarded || tensor->id < least_id) continue;
    if (first == nullptr || tensor->id < first->id) first = tensor;
  }
  return first;
}

Status Engine::take_results(Recipe& recipe, std::span<LiveTensor* const> made) {
  for (size_t i = 0; i < recipe.results.size(); ++i) {
    LiveTensor* tensor = recipe.results[i];
    if (tensor == nullptr || tensor->residency != Residency::kDiscarded) continue;
    if (i >= made.size() || made[i] == nullptr || made[i]->size_bytes != tensor->size_bytes)
      return Status(ErrorCode::kInternal,
                    fmt::format("the op that made tensor {} ({}) gave another result when it ran "
                                "again. Train with --recompute off",
                                tensor->id, format_size(tensor->size_bytes)));
    if (replay_check_) TERAIO_RETURN_IF_ERROR(replay_check_->compare(*tensor, *made[i]));
    mover_.take_memory(*tensor, *made[i]);
  }
  return {};
}

void Engine::free_kept() {
  for (size_t i = 0; i < kept_.size();) {
    if (kept_[i]->uses.pin_count > 0 || !leave_recipes(*kept_[i])) {
      ++i;
      continue;
    }
    LiveTensor* tensor = kept_[i];
    kept_.erase(kept_.begin() + static_cast<ptrdiff_t>(i));
    destroy(*tensor);
    i = 0;  // others may have been kept for it
  }
}

void Engine::discard_everything() {
  for (LiveTensor* tensor : live_)
    if (tensor->replay.recipe != nullptr) discard(*tensor);
}

void Engine::issue(const plan::Migration& migration) {
  LiveTensor* tensor = binding_.find(migration.tensor);
  if (tensor == nullptr) {
    ++counters_.skipped_migrations;
  } else if (migration.action == plan::Action::kDiscard) {
    discard(*tensor);
  } else if (migration.action == plan::Action::kPrefetch) {
    issue_prefetch(*tensor, migration);
  } else {
    evictor_.evict_by_plan(*tensor, migration.tier);
  }
}

void Engine::issue_prefetch(LiveTensor& tensor, const plan::Migration& migration) {
  evictor_.cancel_eviction(tensor);
  if (tensor.residency == Residency::kOffloading) {
    tensor.transfer.want_back();
    return;
  }
  if (tensor.residency != Residency::kOffloaded) return;
  const bool is_in_next_iteration = migration.deadline_op < migration.trigger_op;
  const int64_t op_count = is_in_next_iteration ? schedule_->profile().op_count() : 0;
  due_prefetches_.add(tensor, iteration_start_ + op_count + migration.deadline_op);
}

void Engine::start_due_prefetches(trace::OpIndex position) {
  const int64_t kept_bytes =
      position == iteration::kLost ? 0 : schedule_->index().allocated_bytes(position);
  while (!due_prefetches_.is_empty()) {
    LiveTensor& tensor = due_prefetches_.first();
    if (tensor.residency == Residency::kOffloaded) {
      if (evictor_.free_bytes() < tensor.size_bytes + kept_bytes) return;
      std::byte* memory = device_.allocate(tensor.size_bytes);
      if (memory == nullptr) return;
      ++counters_.planned_prefetches;
      mover_.start_read(tensor, memory, storage::Priority::kPlanned,
                        tensor.planned.prefetch_deadline);
    }
    due_prefetches_.remove_first();
  }
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
  if (tensor.residency == Residency::kDiscarded) return replay_due(tensor);
  if (tensor.residency != Residency::kOffloaded) return {};
  if (tensor.valid_copy() == nullptr)
    return Status(ErrorCode::kCancelled,
                  fmt::format("tensor {} ({}) was left behind when the session ended", tensor.id,
                              format_size(tensor.size_bytes)));
  const Result<std::byte*> memory = evictor_.obtain_memory(tensor.size_bytes, place());
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
      if (!due_prefetches_.is_empty()) start_due_prefetches(position_);
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
    if (can_leave(*tensor)) evictor_.evict(*tensor);
  TERAIO_RETURN_IF_ERROR(mover_.wait_until_idle(WaitPolicy::kOfOp));
  return mover_.take_last_error();
}

Status Engine::restore_all(const Status& replay_failure) {
  due_prefetches_.clear();
  evictor_.cancel_evictions();
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
  due_prefetches_.clear();
  evictor_.cancel_evictions();
  const Status status = mover_.wait_until_idle(WaitPolicy::kOfDiscard);
  release_copies();
  if (!status.ok())
    spdlog::warn(
        "teraio: the session ends without its drives: {}. Their room is free when the process has "
        "ended; check them with `teraio doctor --ssd DIR`{}",
        status.message(), detail_lines(status));
  if (has_transfers()) return false;
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
  TERAIO_CHECK(mover_.amounts().offloaded_bytes == 0);
  if (has_transfers()) return false;
  copies_.leave_stores();
  return true;
}

int64_t Engine::unmovable_bytes() const {
  int64_t total_bytes = 0;
  for (const LiveTensor* tensor : live_) {
    const bool stays_after_write =
        tensor->residency == Residency::kOffloading && tensor->uses.pin_count > 0;
    const bool is_resident = tensor->residency == Residency::kResident;
    if (stays_after_write || (is_resident && !can_leave(*tensor)))
      total_bytes += tensor->size_bytes;
  }
  return total_bytes;
}

}  // namespace teraio::engine
