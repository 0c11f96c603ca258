#include "engine/eviction_order.h"

#include <algorithm>
#include <utility>

namespace teraio::engine {
namespace {

int64_t distance(const LiveTensor& tensor, const ProgramPlace& place) {
  const bool is_known = place.position != kLost && tensor.profile_index >= 0;
  if (!is_known && place.is_lost) return static_cast<int64_t>(place.op_count - tensor.last_use);
  if (!is_known) return place.schedule.profile().op_count();
  return place.schedule.index().ops_until_use(tensor.profile_index, place.position);
}

}  // namespace

std::vector<LiveTensor*> in_eviction_order(const std::vector<LiveTensor*>& candidates,
                                           const ProgramPlace& place) {
  std::vector<std::pair<int64_t, LiveTensor*>> by_distance;
  by_distance.reserve(candidates.size());
  for (LiveTensor* tensor : candidates) by_distance.emplace_back(distance(*tensor, place), tensor);
  std::sort(by_distance.begin(), by_distance.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second->id < b.second->id;
  });
  std::vector<LiveTensor*> ordered;
  ordered.reserve(candidates.size());
  for (const auto& [distance, tensor] : by_distance) ordered.push_back(tensor);
  return ordered;
}

}  // namespace teraio::engine
