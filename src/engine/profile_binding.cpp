#include "engine/profile_binding.h"

#include <algorithm>
#include <unordered_map>

namespace teraio::engine {

void ProfileBinding::follow(std::span<const trace::Tensor> tensors,
                            std::span<LiveTensor* const> live) {
  for (LiveTensor* tensor : bound_)
    if (tensor != nullptr) tensor->profile_index = -1;
  bound_.assign(tensors.size(), nullptr);
  std::unordered_map<uint64_t, LiveTensor*> by_id;
  for (LiveTensor* tensor : live) by_id.emplace(tensor->id, tensor);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].persistent) continue;
    const auto found = by_id.find(static_cast<uint64_t>(tensors[i].id));
    if (found != by_id.end()) bind_one(static_cast<trace::TensorIndex>(i), *found->second);
  }
}

void ProfileBinding::bind(std::span<const trace::TensorIndex> touches, std::span<const Use> uses) {
  const size_t count = std::min(touches.size(), uses.size());
  for (size_t i = 0; i < count; ++i)
    if (uses[i].tensor->profile_index != touches[i]) bind_one(touches[i], *uses[i].tensor);
}

void ProfileBinding::bind_one(trace::TensorIndex index, LiveTensor& tensor) {
  unbind(tensor);
  LiveTensor*& bound = bound_[static_cast<size_t>(index)];
  if (bound != nullptr) bound->profile_index = -1;
  bound = &tensor;
  tensor.profile_index = index;
}

void ProfileBinding::unbind(LiveTensor& tensor) {
  if (tensor.profile_index < 0) return;
  bound_[static_cast<size_t>(tensor.profile_index)] = nullptr;
  tensor.profile_index = -1;
}

}  // namespace teraio::engine
