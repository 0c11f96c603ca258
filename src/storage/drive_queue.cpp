#include "storage/drive_queue.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace teraio::storage {
namespace {

io::Direction opposite(io::Direction direction) {
  return direction == io::Direction::kRead ? io::Direction::kWrite : io::Direction::kRead;
}

}  // namespace

void DriveQueue::push(io::Direction direction, QueuePlace place, int32_t piece,
                      int64_t size_bytes) {
  lane(direction).waiting.emplace(Key{place, piece}, Waiting{0, size_bytes});
}

void DriveQueue::remove(io::Direction direction, QueuePlace place) {
  auto& waiting = lane(direction).waiting;
  waiting.erase(waiting.lower_bound({place, 0}),
                waiting.upper_bound({place, std::numeric_limits<int32_t>::max()}));
}

bool DriveQueue::has(io::Direction direction, QueuePlace place) const {
  const auto& waiting = lane(direction).waiting;
  const auto first = waiting.lower_bound({place, 0});
  return first != waiting.end() && first->first.first == place;
}

void DriveQueue::move(io::Direction direction, QueuePlace from, QueuePlace to) {
  auto& waiting = lane(direction).waiting;
  auto it = waiting.lower_bound({from, 0});
  std::vector<std::pair<int32_t, Waiting>> moved;
  while (it != waiting.end() && it->first.first == from) {
    moved.emplace_back(it->first.second, it->second);
    it = waiting.erase(it);
  }
  for (const auto& [piece, rest] : moved) waiting.emplace(Key{to, piece}, rest);
}

int32_t DriveQueue::in_flight_max(io::Direction direction) const {
  const Lane& own = lane(direction);
  if (own.has_urgent_waiting()) return queue_depth_;
  const bool has_to_yield = lane(opposite(direction)).has_urgent() && !own.has_urgent();
  if (direction == io::Direction::kWrite) return has_to_yield ? 1 : planned_writes_max();
  return has_to_yield ? std::max(1, queue_depth_ / 4) : queue_depth_;
}

int32_t DriveQueue::planned_writes_max() const {
  const bool is_alone = !lane(io::Direction::kRead).is_busy();
  return is_alone ? planned_write_depth_ : std::min(queue_depth_, 2 * planned_write_depth_);
}

bool DriveQueue::can_start(io::Direction direction) const {
  const Lane& own = lane(direction);
  return !own.waiting.empty() && own.in_flight < in_flight_max(direction);
}

QueuedRequest DriveQueue::take(Lane& lane) {
  const auto front = lane.waiting.begin();
  const auto& [place, piece] = front->first;
  Waiting& rest = front->second;
  const int64_t size_bytes = std::min(request_bytes_, rest.size_bytes - rest.next_offset_bytes);
  const QueuedRequest request{place.transfer, piece, rest.next_offset_bytes, size_bytes,
                              !place.is_planned};
  rest.next_offset_bytes += size_bytes;
  if (rest.next_offset_bytes == rest.size_bytes) lane.waiting.erase(front);
  ++lane.in_flight;
  if (request.is_urgent) ++lane.urgent_in_flight;
  return request;
}

std::optional<QueuedRequest> DriveQueue::next() {
  for (const io::Direction direction : {io::Direction::kRead, io::Direction::kWrite})
    if (can_start(direction)) return take(lane(direction));
  return std::nullopt;
}

void DriveQueue::finish(io::Direction direction, bool was_urgent) {
  --lane(direction).in_flight;
  if (was_urgent) --lane(direction).urgent_in_flight;
}

}  // namespace teraio::storage
