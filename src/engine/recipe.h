// Recipe: how a tensor is made again: the op that made it, and the tensors that this op read.
//
// A tensor whose bytes may be discarded has a recipe. Recipes refer to each other: an input that
// the program has dropped is found again by the recipe that made it.
//
// A recipe is needed while a result is discarded, or while a needed recipe uses it. What a needed
// recipe reads keeps its bytes: before an op changes them, the discarded tensors are made again
// (find_discarded_reader()); when the program drops such an input, it stays, or its own recipe
// takes its place (leave_recipes()). Hence a tensor that was discarded can be made again, unless
// such a replay fails and the change cannot be kept from happening, because another stream makes it
// (Runtime::record_stream()). The versions then tell, and a replay fails.
//
// Threads: under the engine's lock. Ownership: a tensor owns its recipe, and a recipe owns those
// that make its dropped inputs. No call fails.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/live_tensor.h"
#include "engine/replayer.h"
#include "engine/use.h"

namespace teraio::engine {

// An input of a recipe: a tensor that lives, or one that the program has dropped.
struct RecipeInput {
  LiveTensor* tensor = nullptr;   // null: dropped
  uint64_t version = 0;           // ReplayState::version when the op read it
  std::shared_ptr<Recipe> maker;  // of a dropped one; null: its bytes are lost
  size_t result = 0;              // of the maker
};

struct Recipe {
  Recipe() = default;
  ~Recipe();
  Recipe(const Recipe&) = delete;
  Recipe& operator=(const Recipe&) = delete;

  std::shared_ptr<const ReplayableOp> op;
  std::vector<RecipeInput> inputs;
  std::vector<LiveTensor*> results;  // in the op's order; null: not the runtime's, or dropped
  std::vector<uint64_t> result_versions;
  std::vector<Recipe*> users;      // which this one makes a dropped input for
  int32_t depth = 0;               // the longest chain of makers behind it
  int32_t height = 0;              // the longest chain of users before it
  mutable uint64_t last_walk = 0;  // that came here
  // Dropped results, made again for other replays.
  std::unique_ptr<ReplayResults> temporaries;
  int64_t temporary_readers = 0;  // planned replays that have not read them yet
};

// An op has ended: its results, each new, get a recipe. `inputs`: whose bytes a replay reads.
std::shared_ptr<Recipe> add_recipe(std::shared_ptr<const ReplayableOp> op,
                                   std::span<LiveTensor* const> inputs,
                                   std::span<LiveTensor* const> results);

// Whether a discarded tensor needs the recipe, whose inputs then keep their bytes.
bool is_needed(const Recipe& recipe);

// Whether a result is discarded.
bool has_discarded_result(const Recipe& recipe);

// Whether the tensor's bytes are still those that its recipe makes, and can be made again.
bool has_intact_recipe(const LiveTensor& tensor);

// Returns a discarded tensor that needs the bytes of this one; null: none does.
LiveTensor* find_discarded_reader(const LiveTensor& tensor);

// The program drops the tensor. True: it may go, and no recipe refers to it any more. False: a
// discarded tensor needs its bytes, and nothing else can make them.
bool leave_recipes(LiveTensor& tensor);

}  // namespace teraio::engine
