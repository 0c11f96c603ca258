// Discards: tensors that leave the device without a copy, and what is known of how they are made
// again.
//
// The engine cannot run ops. A call that needs discarded bytes fails with kReplayDue; take_due()
// tells what is to be run before the call is made again.
//
// Threads: called under the engine's lock. Ownership: tensors that the program has dropped are kept
// here while recipes need them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/engine_counters.h"
#include "engine/engine_options.h"
#include "engine/evictor.h"
#include "engine/live_tensor.h"
#include "engine/recipe.h"
#include "engine/replay_check.h"
#include "engine/tensor_mover.h"
#include "engine/use.h"

namespace teraio::engine {

// What is to be made again, before the call that failed with kReplayDue is made again.
struct DueReplay {
  std::shared_ptr<Recipe> recipe;
  bool is_planned = false;    // the call succeeds without it, or needs another one
  bool is_temporary = false;  // for replays that follow: the program has dropped the result
};

class Discards {
 public:
  // All outlive the object; `live` has all tensors.
  Discards(const EngineOptions& options, const std::vector<LiveTensor*>& live, TensorMover& mover,
           Evictor& evictor, EngineCounters& counters);

  // --- For the engine's owner -----------------------------------------------------------------

  // After kReplayDue; once.
  DueReplay take_due() { return *std::exchange(due_, std::nullopt); }
  // After Engine::end_op(), of an op that changes none of its inputs: how its results are made
  // again.
  void add_recipe(const OpReplay& replay);
  // A replay of the recipe has made its results: the discarded ones get their bytes. Fails
  // (kInternal) when a result is not of the size that it had.
  Status take_results(Recipe& recipe, std::span<LiveTensor* const> made);
  // Nothing is discarded from now on.
  void end() { may_discard_ = false; }
  // The discarded tensor with the least id from this one on; null: there is none.
  LiveTensor* first(uint64_t least_id) const;
  // Discards all tensors that can leave and be made again. For tests.
  void discard_everything();
  // The owner counts the replays that it runs.
  ReplayCounters& counters() { return counters_.replays; }

  // --- For the engine and its plan ------------------------------------------------------------

  // The plan discards the tensor; counted as skipped where it cannot leave or be made again.
  void discard(LiveTensor& tensor);
  // Fails with kReplayDue: the tensor is discarded and needed.
  Status request(LiveTensor& tensor);
  // Fails with kReplayDue: the plan replays the recipe before the op that begins.
  Status request_planned(std::shared_ptr<Recipe> recipe, bool is_temporary);
  // Before the bytes of inputs change: fails with kReplayDue when discarded tensors need them.
  Status check_readers(std::span<const Use> uses);
  // A plan for a profile of so many tensors is followed: recipes are of those from now on.
  void follow(size_t tensor_count) { planned_recipes_.assign(tensor_count, {}); }
  // How a tensor of the profile was made in this iteration; null: it was not, or nobody needs it.
  std::shared_ptr<Recipe> recipe_of(trace::TensorIndex index) const {
    return planned_recipes_[static_cast<size_t>(index)].lock();
  }
  // The program has dropped the tensor, and a recipe needs it.
  void keep(LiveTensor& tensor) { kept_.push_back(&tensor); }
  // A kept tensor that is no longer needed, which is the caller's now; null: there is none.
  LiveTensor* take_unneeded();

 private:
  const std::vector<LiveTensor*>& live_;
  TensorMover& mover_;
  Evictor& evictor_;
  EngineCounters& counters_;
  std::optional<DueReplay> due_;
  std::optional<ReplayCheck> check_;
  bool may_discard_ = true;
  std::vector<std::weak_ptr<Recipe>> planned_recipes_;  // per tensor of the profile
  std::vector<LiveTensor*> kept_;
};

}  // namespace teraio::engine
