#include "engine/recipe.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace teraio::engine {
namespace {

// Bounds the memory of recipes for tensors that the program has dropped long ago, and the replays
// that one tensor may take.
constexpr int32_t kDeepest = 8;

template <typename T>
void erase_one(std::vector<T*>& list, const T* element) {
  const auto found = std::find(list.begin(), list.end(), element);
  if (found != list.end()) list.erase(found);
}

// A walk over recipes that refer to each other, which comes to each of them once: there may be very
// many ways from one to another.
class Walk {
 public:
  // Whether the walk has not been at the recipe yet.
  bool enters(const Recipe& recipe) const { return std::exchange(recipe.last_walk, id_) != id_; }

 private:
  static inline std::atomic<uint64_t> last_id_ = 0;
  const uint64_t id_ = ++last_id_;
};

// Recipes that the walk has been at are intact.
bool is_intact(const Recipe& recipe, const Walk& walk) {
  return std::all_of(recipe.inputs.begin(), recipe.inputs.end(), [&](const RecipeInput& input) {
    if (input.tensor == nullptr)
      return input.maker != nullptr &&
             (!walk.enters(*input.maker) || is_intact(*input.maker, walk));
    return input.tensor->replay.version == input.version &&
           input.tensor->uses.write_pin_count == 0 && !input.tensor->uses.is_address_known;
  });
}

bool is_discarded(const LiveTensor* result) {
  return result != nullptr && result->residency == Residency::kDiscarded;
}

// Returns a discarded tensor that the recipe is needed for; null: it is not needed, like those that
// the walk has been at.
LiveTensor* discarded_result(const Recipe& recipe, const Walk& walk) {
  if (!walk.enters(recipe)) return nullptr;
  for (LiveTensor* result : recipe.results)
    if (is_discarded(result)) return result;
  for (const Recipe* user : recipe.users)
    if (LiveTensor* discarded = discarded_result(*user, walk)) return discarded;
  return nullptr;
}

// Whether the tensor's recipe can take the place of its bytes for the one that reads them.
bool can_replace(const LiveTensor& tensor, const Recipe& reader, const RecipeInput& input) {
  return input.version == tensor.replay.version && has_intact_recipe(tensor) &&
         tensor.replay.recipe->depth + 1 + reader.height <= kDeepest;
}

void raise_depth(Recipe& recipe, int32_t depth) {
  if (recipe.depth >= depth) return;
  recipe.depth = depth;
  for (Recipe* user : recipe.users) raise_depth(*user, depth + 1);
}

void raise_height(Recipe& recipe, int32_t height) {
  if (recipe.height >= height) return;
  recipe.height = height;
  for (const RecipeInput& input : recipe.inputs)
    if (input.maker != nullptr) raise_height(*input.maker, height + 1);
}

void drop_input(Recipe& reader, RecipeInput& input) {
  LiveTensor& tensor = *std::exchange(input.tensor, nullptr);
  if (!can_replace(tensor, reader, input)) return;
  input.maker = tensor.replay.recipe;
  input.result = tensor.replay.result;
  input.maker->users.push_back(&reader);
  raise_depth(reader, input.maker->depth + 1);
  raise_height(*input.maker, reader.height + 1);
}

}  // namespace

Recipe::~Recipe() {
  for (RecipeInput& input : inputs) {
    if (input.tensor != nullptr) erase_one(input.tensor->replay.read_by, this);
    if (input.maker != nullptr) erase_one(input.maker->users, this);
  }
}

std::shared_ptr<Recipe> add_recipe(std::shared_ptr<const ReplayableOp> op,
                                   std::span<LiveTensor* const> inputs,
                                   std::span<LiveTensor* const> results) {
  auto recipe = std::make_shared<Recipe>();
  recipe->op = std::move(op);
  for (LiveTensor* input : inputs) {
    recipe->inputs.push_back({input, input->replay.version, nullptr, 0});
    input->replay.read_by.push_back(recipe.get());
  }
  for (size_t i = 0; i < results.size(); ++i) {
    LiveTensor* result = results[i];
    const bool is_known = std::find(results.begin(), results.begin() + i, result) !=
                          results.begin() + static_cast<ptrdiff_t>(i);
    recipe->results.push_back(is_known ? nullptr : result);
    recipe->result_versions.push_back(result == nullptr ? 0 : result->replay.version);
    if (result == nullptr || is_known) continue;
    result->replay.recipe = recipe;
    result->replay.result = i;
  }
  return recipe;
}

bool is_needed(const Recipe& recipe) { return discarded_result(recipe, Walk()) != nullptr; }

bool has_discarded_result(const Recipe& recipe) {
  return std::any_of(recipe.results.begin(), recipe.results.end(), is_discarded);
}

bool has_intact_recipe(const LiveTensor& tensor) {
  const Recipe* recipe = tensor.replay.recipe.get();
  return recipe != nullptr &&
         recipe->result_versions[tensor.replay.result] == tensor.replay.version &&
         is_intact(*recipe, Walk());
}

LiveTensor* find_discarded_reader(const LiveTensor& tensor) {
  const Walk walk;
  for (const Recipe* reader : tensor.replay.read_by)
    if (LiveTensor* discarded = discarded_result(*reader, walk)) return discarded;
  return nullptr;
}

bool leave_recipes(LiveTensor& tensor) {
  const auto loses_bytes = [&](const Recipe* reader) {
    if (!is_needed(*reader)) return false;
    return std::any_of(reader->inputs.begin(), reader->inputs.end(), [&](const RecipeInput& input) {
      return input.tensor == &tensor && !can_replace(tensor, *reader, input);
    });
  };
  if (std::any_of(tensor.replay.read_by.begin(), tensor.replay.read_by.end(), loses_bytes))
    return false;
  for (Recipe* reader : std::exchange(tensor.replay.read_by, {}))
    for (RecipeInput& input : reader->inputs)
      if (input.tensor == &tensor) drop_input(*reader, input);
  if (tensor.replay.recipe != nullptr)
    tensor.replay.recipe->results[tensor.replay.result] = nullptr;
  tensor.replay.recipe = nullptr;
  return true;
}

}  // namespace teraio::engine
