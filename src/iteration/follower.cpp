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
    if (is_shown(*place, places.size())) return *place;
  const auto first = after - std::min(kPlacesLookedAt, after - places.begin());
  for (auto place = after; place != first;)
    if (is_shown(*--place, places.size())) return *place;
  return kLost;
}

bool Follower::is_shown(trace::OpIndex place, size_t place_count) const {
  const bool is_near = std::abs(place - next_) < kNear;
  if (is_near && place_count == 1) return true;
  return matching_ops(place) >= (is_near ? kNearMatches : kFarMatches);
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
