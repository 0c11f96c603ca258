#include "engine/profile_binding.h"

#include <algorithm>
#include <unordered_map>

namespace teraio::engine {

void ProfileBinding::follow(std::span<const trace::Tensor> tensors,
                            std::span<LiveTensor* const> live) {
  for (LiveTensor* tensor : bound_)
    if (tensor != nullptr) tensor->planned.profile_index = -1;
  bound_.assign(tensors.size(), nullptr);
  std::unordered_map<uint64_t, LiveTensor*> by_id;
  for (LiveTensor* tensor : live) by_id.emplace(tensor->id, tensor);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].persistent) continue;
    const auto found = by_id.find(static_cast<uint64_t>(tensors[i].id));
    if (found != by_id.end()) bind_one(static_cast<trace::TensorIndex>(i), *found->second);
  }
}

void ProfileBinding::follow_from(const iteration::Schedule& schedule,
                                 const iteration::Schedule& next, trace::OpIndex op_count,
                                 std::span<LiveTensor* const> live) {
  const std::vector<LiveTensor*> bound = bound_;
  follow(next.profile().trace.tensors, live);
  const auto bind_as = [&](std::span<const trace::TensorIndex> from,
                           std::span<const trace::TensorIndex> to) {
    for (size_t i = 0; i < std::min(from.size(), to.size()); ++i)
      if (LiveTensor* tensor = bound[static_cast<size_t>(from[i])];
          tensor != nullptr && tensor->planned.profile_index != to[i])
        bind_one(to[i], *tensor);
  };
  for (trace::OpIndex op = 0; op < op_count; ++op) {
    bind_as(schedule.touches(op), next.touches(op));
    bind_as(schedule.births(op), next.births(op));
  }
}

void ProfileBinding::bind(std::span<const trace::TensorIndex> touches, std::span<const Use> uses) {
  const size_t count = std::min(touches.size(), uses.size());
  for (size_t i = 0; i < count; ++i)
    if (uses[i].tensor->planned.profile_index != touches[i]) bind_one(touches[i], *uses[i].tensor);
}

void ProfileBinding::bind_one(trace::TensorIndex index, LiveTensor& tensor) {
  unbind(tensor);
  LiveTensor*& bound = bound_[static_cast<size_t>(index)];
  if (bound != nullptr) bound->planned.profile_index = -1;
  bound = &tensor;
  tensor.planned.profile_index = index;
}

void ProfileBinding::unbind(LiveTensor& tensor) {
  if (tensor.planned.profile_index < 0) return;
  bound_[static_cast<size_t>(tensor.planned.profile_index)] = nullptr;
  tensor.planned.profile_index = -1;
}

}  // namespace teraio::engine
