#include "engine/planned_moves.h"

#include <algorithm>
#include <utility>

#include "engine/timeline.h"

namespace teraio::engine {

Status PlannedMoves::begin_op(trace::OpIndex position, std::span<const Use> inputs) {
  position_ = position;
  if (position == iteration::kLost) return {};
  last_position_ = position;
  const auto births = schedule_->index().births[static_cast<size_t>(position)];
  expected_births_.assign(births.begin(), births.end());
  binding_.bind(schedule_->touches(position), inputs);
  return issue_until(position);
}

void PlannedMoves::end_op(trace::OpIndex position, std::span<const Use> uses,
                          std::span<LiveTensor* const> births) {
  if (position == iteration::kLost) return;
  binding_.bind(schedule_->touches(position), uses);
  if (!births.empty()) bind_births(position, uses, births);
}

device::Tenant PlannedMoves::tenant(LiveTensor& tensor) const {
  return {&tensor, leaves_at(tensor.planned.profile_index)};
}

// Its size tells which of the births it is. Any other tensor dies when the op ends.
device::Tenant PlannedMoves::tenant_at_birth(LiveTensor& tensor, int64_t size_bytes) {
  const auto birth = std::ranges::find(expected_births_, size_bytes, [this](trace::TensorIndex i) {
    return schedule_->index().size_bytes[static_cast<size_t>(i)];
  });
  if (birth == expected_births_.end()) return {&tensor, device::kSoon};
  const double leaves_at = this->leaves_at(*birth);
  expected_births_.erase(birth);
  return {&tensor, leaves_at};
}

double PlannedMoves::leaves_at(trace::TensorIndex tensor) const {
  if (tensor < 0 || position_ == iteration::kLost) return device::kSoon;
  const std::optional<trace::OpIndex> op = schedule_->departure_after(tensor, position_);
  if (!op) return device::kNever;
  return static_cast<double>(iteration_count_) +
         static_cast<double>(*op) / schedule_->profile().op_count();
}

// In another number than the profile has, nothing tells which is which.
void PlannedMoves::bind_births(trace::OpIndex position, std::span<const Use> uses,
                               std::span<LiveTensor* const> births) {
  std::vector<Use> others;
  for (LiveTensor* birth : births)
    if (std::ranges::find(uses, birth, &Use::tensor) == uses.end()) others.push_back({birth, true});
  const std::span<const trace::TensorIndex> known = schedule_->births(position);
  if (known.size() == others.size()) binding_.bind(known, others);
}

void PlannedMoves::start_prefetches_between_ops() {
  if (due_prefetches_.is_empty()) return;
  const bool has_next =
      position_ != iteration::kLost && position_ + 1 < schedule_->profile().op_count();
  start_due_prefetches(has_next ? position_ + 1 : iteration::kLost);
}

void PlannedMoves::forget(LiveTensor& tensor) {
  binding_.unbind(tensor);
  due_prefetches_.remove(tensor);
}

void PlannedMoves::follow(std::shared_ptr<const iteration::Schedule> schedule,
                          trace::OpIndex position, Known known) {
  ++epoch_;
  due_prefetches_.clear();
  parts_.evictor.cancel_evictions();
  const std::shared_ptr<const iteration::Schedule> before =
      std::exchange(schedule_, std::move(schedule));
  if (timeline_ != nullptr) timeline_->follow(schedule_);
  if (known == Known::kTensorsSoFar)
    binding_.follow_from(*before, *schedule_, position, parts_.live);
  else if (known == Known::kPersistentTensors)
    binding_.follow(schedule_->profile().trace.tensors, parts_.live);
  if (known != Known::kAllTensors) parts_.discards.follow(schedule_->index().tensor_count());
  parts_.copies.forget_layouts();
  ++iteration_count_;
  iteration_start_ += before->profile().op_count();
  expected_births_.clear();
  issued_until_ = position - 1;
  due_actions_ = {};
  position_ = schedule_->is_empty() ? iteration::kLost : position;
  last_position_ = position_;
  for (const LiveTensor* tensor : parts_.live)
    if (tensor->memory != nullptr)
      device_.set_leaves_at(tensor->memory, leaves_at(tensor->planned.profile_index));
}

// Where a plan has a tensor follows from its last action on it, for a persistent tensor in the
// iteration before when this one has had none yet. What leaves goes first.
void PlannedMoves::take_planned_places() {
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
      if (last == nullptr && !index.exists_before(static_cast<trace::TensorIndex>(i), position))
        continue;
      if (is_leaving)
        leave_as_planned(*tensor, *last);
      else
        return_as_planned(*tensor, position);
    }
}

// Nothing to do for a tensor that the plan has discarded.
void PlannedMoves::leave_as_planned(LiveTensor& tensor, const plan::Migration& action) {
  if (tensor.residency == Residency::kResident && plan::uses_tier(action.action))
    parts_.evictor.evict_by_plan(tensor, action);
}

void PlannedMoves::return_as_planned(LiveTensor& tensor, trace::OpIndex position) {
  if (tensor.residency == Residency::kOffloading) tensor.transfer.want_back();
  if (tensor.residency != Residency::kOffloaded) return;
  const int64_t idle_ops = schedule_->index().ops_until_use(tensor.planned.profile_index, position);
  due_prefetches_.add(tensor, iteration_start_ + position + idle_ops);
}

void PlannedMoves::start_iteration() {
  ++epoch_;
  parts_.copies.fail_unanswered();
  ++iteration_count_;
  iteration_start_ += schedule_->profile().op_count();
  issued_until_ = iteration::kLost;
  due_actions_ = {};
  position_ = schedule_->is_empty() ? iteration::kLost : 0;
  last_position_ = position_;
}

void PlannedMoves::jump_to(trace::OpIndex position) {
  issued_until_ = position - 1;
  due_actions_ = {};
  due_prefetches_.clear();
  parts_.evictor.cancel_evictions();
  if (schedule_->is_planned()) take_planned_places();
}

Status PlannedMoves::issue_until(trace::OpIndex position) {
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

Status PlannedMoves::prepare_replay(const plan::Migration& migration) {
  if (const LiveTensor* tensor = binding_.find(migration.tensor)) {
    if (tensor->residency != Residency::kDiscarded) return {};
    expected_births_.push_back(migration.tensor);
    return parts_.discards.request_planned(tensor->replay.recipe, /*is_temporary=*/false);
  }
  std::shared_ptr<Recipe> recipe = parts_.discards.recipe_of(migration.tensor);
  if (recipe == nullptr || recipe->temporaries != nullptr || !is_needed(*recipe)) return {};
  recipe->temporary_readers = schedule_->replays_reading(migration.tensor, due_actions_);
  if (recipe->temporary_readers == 0) return {};
  return parts_.discards.request_planned(std::move(recipe), /*is_temporary=*/true);
}

void PlannedMoves::issue(const plan::Migration& migration) {
  LiveTensor* tensor = binding_.find(migration.tensor);
  if (tensor == nullptr) {
    ++parts_.counters.skipped_migrations;
  } else if (migration.action == plan::Action::kDiscard) {
    parts_.discards.discard(*tensor);
  } else if (migration.action == plan::Action::kPrefetch) {
    issue_prefetch(*tensor, migration);
  } else {
    parts_.evictor.evict_by_plan(*tensor, migration);
  }
}

void PlannedMoves::issue_prefetch(LiveTensor& tensor, const plan::Migration& migration) {
  parts_.evictor.cancel_eviction(tensor);
  if (tensor.residency == Residency::kOffloading) {
    tensor.transfer.want_back();
    return;
  }
  if (tensor.residency != Residency::kOffloaded) return;
  const bool is_in_next_iteration = migration.deadline_op < migration.trigger_op;
  const int64_t op_count = is_in_next_iteration ? schedule_->profile().op_count() : 0;
  due_prefetches_.add(tensor, iteration_start_ + op_count + migration.deadline_op);
}

void PlannedMoves::start_due_prefetches(trace::OpIndex position) {
  const int64_t kept_bytes =
      position == iteration::kLost ? 0 : schedule_->index().allocated_bytes(position);
  while (!due_prefetches_.is_empty()) {
    LiveTensor& tensor = due_prefetches_.first();
    if (tensor.residency == Residency::kOffloaded) {
      if (parts_.evictor.free_bytes() < tensor.size_bytes + kept_bytes) return;
      std::byte* memory = parts_.evictor.take_free(tensor.size_bytes, tenant(tensor));
      if (memory == nullptr) return;
      ++parts_.counters.planned_prefetches;
      parts_.mover.start_read(tensor, memory, storage::Priority::kPlanned,
                              tensor.planned.prefetch_deadline);
    }
    due_prefetches_.remove_first();
  }
}

}  // namespace teraio::engine
