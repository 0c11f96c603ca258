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

void put_first_what_fits(Distances& distances, int64_t wanted_bytes) {
  auto best = distances.end();
  for (auto each = distances.begin(); each != distances.end(); ++each) {
    if (each->first < distances.front().first / 2) break;
    const int64_t size_bytes = each->second->size_bytes;
    if (size_bytes < wanted_bytes) continue;
    if (best == distances.end() || size_bytes < best->second->size_bytes) best = each;
  }
  if (best != distances.end()) std::rotate(distances.begin(), best, best + 1);
}

std::vector<LiveTensor*> tensors_of(const Distances& distances) {
  std::vector<LiveTensor*> tensors;
  tensors.reserve(distances.size());
  for (const auto& [distance, tensor] : distances) tensors.push_back(tensor);
  return tensors;
}

}  // namespace

std::vector<LiveTensor*> in_eviction_order(const std::vector<LiveTensor*>& candidates,
                                           const ProgramPlace& place) {
  return tensors_of(by_distance(candidates, place));
}

std::vector<LiveTensor*> in_order_of_fit(const std::vector<LiveTensor*>& candidates,
                                         int64_t wanted_bytes, const ProgramPlace& place) {
  Distances distances = by_distance(candidates, place);
  if (place.position != iteration::kLost && !place.is_lost)
    put_first_what_fits(distances, wanted_bytes);
  return tensors_of(distances);
}

}  // namespace teraio::engine
