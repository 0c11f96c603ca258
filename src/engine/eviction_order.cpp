#include "engine/eviction_order.h"

#include <algorithm>
#include <utility>

namespace teraio::engine {
namespace {

using Distances = std::vector<std::pair<int64_t, LiveTensor*>>;  // farthest first

int64_t distance(const LiveTensor& tensor, const ProgramPlace& place) {
  const bool is_known = place.position != iteration::kLost && tensor.planned.profile_index >= 0;
  if (!is_known && place.is_lost) return static_cast<int64_t>(place.op_count - tensor.uses.last_op);
  if (!is_known) return place.schedule.profile().op_count();
  return place.schedule.index().ops_until_use(tensor.planned.profile_index, place.position);
}

Distances by_distance(const std::vector<LiveTensor*>& candidates, const ProgramPlace& place) {
  Distances distances;
  distances.reserve(candidates.size());
  for (LiveTensor* tensor : candidates) distances.emplace_back(distance(*tensor, place), tensor);
  std::sort(distances.begin(), distances.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second->id < b.second->id;
  });
  return distances;
}

}  // namespace

std::vector<LiveTensor*> in_eviction_order(const std::vector<LiveTensor*>& candidates,
                                           const ProgramPlace& place) {
  std::vector<LiveTensor*> tensors;
  tensors.reserve(candidates.size());
  for (const auto& [distance, tensor] : by_distance(candidates, place)) tensors.push_back(tensor);
  return tensors;
}

}  // namespace teraio::engine
