#include "iteration/follower.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace teraio::iteration {
namespace {

constexpr size_t kNearMatches = 2;
// An op that occurs more often tells little, and its places take long to look at.
constexpr ptrdiff_t kPlacesLookedAt = 64;  // in each direction

}  // namespace

void Follower::follow(std::shared_ptr<const OpSequence> sequence, trace::OpIndex next) {
  sequence_ = std::move(sequence);
  size_ = sequence_ == nullptr ? 0 : sequence_->size();
  start_iteration();
  next_ = next;
}

void Follower::start_iteration() {
  next_ = 0;
  is_lost_ = false;
  deviated_ = false;
  recent_count_ = 0;
}

trace::OpIndex Follower::deviate(uint64_t structure) {
  if (!is_lost_) {
    ++deviation_count_;
    deviated_ = true;
    is_lost_ = true;
    recent_count_ = 0;
  }
  std::rotate(recent_.begin(), recent_.begin() + 1, recent_.end());
  recent_.back() = structure;
  recent_count_ = std::min(recent_count_ + 1, kFarMatches);
  const trace::OpIndex place = find_again(structure);
  if (place == kLost) return kLost;
  is_lost_ = false;
  next_ = place + 1;
  return place;
}

trace::OpIndex Follower::find_again(uint64_t structure) const {
  const std::span<const trace::OpIndex> places = sequence_->places_of(structure);
  const auto after = std::lower_bound(places.begin(), places.end(), next_);
  const auto last = after + std::min(kPlacesLookedAt, places.end() - after);
  for (auto place = after; place != last; ++place)
    if (is_shown(*place, places)) return *place;
  const auto first = after - std::min(kPlacesLookedAt, after - places.begin());
  for (auto place = after; place != first;)
    if (is_shown(*--place, places)) return *place;
  return kLost;
}

bool Follower::is_shown(trace::OpIndex place, std::span<const trace::OpIndex> places) const {
  const trace::OpIndex distance = std::abs(place - next_);
  if (distance >= kNear) return matching_ops(place) >= kFarMatches;
  return is_alone_within(4 * (distance + 2), places) || matching_ops(place) >= kNearMatches;
}

// Whether one of the places is so near, and no other.
bool Follower::is_alone_within(trace::OpIndex reach, std::span<const trace::OpIndex> places) const {
  const auto first = std::ranges::lower_bound(places, next_ - reach);
  return std::ranges::upper_bound(first, places.end(), next_ + reach) - first == 1;
}

// How many of the ops since the deviation stand in the sequence up to `place`.
size_t Follower::matching_ops(trace::OpIndex place) const {
  const auto most = std::min(recent_count_, static_cast<size_t>(place) + 1);
  size_t count = 0;
  while (count < most && recent_[kFarMatches - 1 - count] ==
                             sequence_->at(place - static_cast<trace::OpIndex>(count)))
    ++count;
  return count;
}

}  // namespace teraio::iteration
