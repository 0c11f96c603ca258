#include "engine/eviction_order.h"

#include <algorithm>
#include <utility>

namespace teraio::engine {
namespace {

using Distances = std::vector<std::pair<int64_t, LiveTensor*>>;  // farthest first

int64_t distance(const LiveTensor& tensor, const ProgramPlace& place) {
  const bool is_known = place.position != kLost && tensor.profile_index >= 0;
  if (!is_known && place.is_lost) return static_cast<int64_t>(place.op_count - tensor.last_use);
  if (!is_known) return place.schedule.profile().op_count();
  return place.schedule.index().ops_until_use(tensor.profile_index, place.position);
}

void put_first_what_fits(Distances& by_distance, int64_t wanted_bytes) {
  auto best = by_distance.end();
  for (auto each = by_distance.begin(); each != by_distance.end(); ++each) {
    if (each->first < by_distance.front().first / 2) break;
    const int64_t size_bytes = each->second->size_bytes;
    if (size_bytes < wanted_bytes) continue;
    if (best == by_distance.end() || size_bytes < best->second->size_bytes) best = each;
  }
  if (best != by_distance.end()) std::rotate(by_distance.begin(), best, best + 1);
}

}  // namespace

std::vector<LiveTensor*> in_eviction_order(const std::vector<LiveTensor*>& candidates,
                                           int64_t wanted_bytes, const ProgramPlace& place) {
  Distances by_distance;
  by_distance.reserve(candidates.size());
  for (LiveTensor* tensor : candidates) by_distance.emplace_back(distance(*tensor, place), tensor);
  std::sort(by_distance.begin(), by_distance.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second->id < b.second->id;
  });
  if (place.position != kLost && !place.is_lost) put_first_what_fits(by_distance, wanted_bytes);
  std::vector<LiveTensor*> ordered;
  ordered.reserve(candidates.size());
  for (const auto& [distance, tensor] : by_distance) ordered.push_back(tensor);
  return ordered;
}

}  // namespace teraio::engine
