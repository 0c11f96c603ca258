#include "engine/discards.h"

#include <fmt/format.h>

#include "base/units.h"

namespace teraio::engine {

Discards::Discards(const EngineOptions& options, const std::vector<LiveTensor*>& live,
                   TensorMover& mover, Evictor& evictor, EngineCounters& counters)
    : live_(live), mover_(mover), evictor_(evictor), counters_(counters) {
  if (options.verify_replays) check_.emplace(*options.device, counters.replays);
}

Status Discards::request(LiveTensor& tensor) {
  due_ = {tensor.replay.recipe, /*is_planned=*/false, /*is_temporary=*/false};
  return Status(ErrorCode::kReplayDue, fmt::format("tensor {} ({}) was discarded", tensor.id,
                                                   format_size(tensor.size_bytes)));
}

Status Discards::request_planned(std::shared_ptr<Recipe> recipe, bool is_temporary) {
  due_ = {std::move(recipe), /*is_planned=*/true, is_temporary};
  return Status(ErrorCode::kReplayDue, "a planned replay is due");
}

Status Discards::check_readers(std::span<const Use> uses) {
  for (const Use& use : uses) {
    if (!use.is_write || use.tensor->replay.read_by.empty()) continue;
    if (LiveTensor* discarded = find_discarded_reader(*use.tensor)) return request(*discarded);
  }
  return {};
}

void Discards::add_recipe(const OpReplay& replay) {
  const std::shared_ptr<Recipe> recipe =
      engine::add_recipe(replay.op, replay.inputs, replay.results);
  for (const LiveTensor* result : recipe->results)
    if (result != nullptr && result->planned.profile_index >= 0)
      planned_recipes_[static_cast<size_t>(result->planned.profile_index)] = recipe;
}

void Discards::discard(LiveTensor& tensor) {
  const bool can_go = may_discard_ && evictor_.can_leave(tensor) && has_intact_recipe(tensor);
  const bool is_noted = can_go && (!check_ || check_->note(tensor).ok());
  if (is_noted && mover_.discard(tensor)) {
    ++counters_.replays.discards;
  } else {
    ++counters_.skipped_migrations;
  }
}

void Discards::discard_everything() {
  for (LiveTensor* tensor : live_)
    if (tensor->replay.recipe != nullptr) discard(*tensor);
}

LiveTensor* Discards::first(uint64_t least_id) const {
  if (mover_.amounts().discarded_bytes == 0) return nullptr;
  LiveTensor* first = nullptr;
  for (LiveTensor* tensor : live_) {
    if (tensor->residency != Residency::kDiscarded || tensor->id < least_id) continue;
    if (first == nullptr || tensor->id < first->id) first = tensor;
  }
  return first;
}

Status Discards::take_results(Recipe& recipe, std::span<LiveTensor* const> made) {
  for (size_t i = 0; i < recipe.results.size(); ++i) {
    LiveTensor* tensor = recipe.results[i];
    if (tensor == nullptr || tensor->residency != Residency::kDiscarded) continue;
    if (i >= made.size() || made[i] == nullptr || made[i]->size_bytes != tensor->size_bytes)
      return Status(ErrorCode::kInternal,
                    fmt::format("the op that made tensor {} ({}) gave another result when it ran "
                                "again. Train with --recompute off",
                                tensor->id, format_size(tensor->size_bytes)));
    if (check_) TERAIO_RETURN_IF_ERROR(check_->compare(*tensor, *made[i]));
    mover_.take_memory(*tensor, *made[i]);
  }
  return {};
}

LiveTensor* Discards::take_unneeded() {
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
    LiveTensor* tensor = *kept;
    if (tensor->uses.pin_count > 0 || !leave_recipes(*tensor)) continue;
    kept_.erase(kept);
    return tensor;
  }
  return nullptr;
}

}  // namespace teraio::engine
