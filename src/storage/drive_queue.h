// DriveQueue: the requests that wait for one drive, and the choice of the next one.
//
// Few requests are in flight at a time, so an urgent transfer waits for few others. Each direction
// has a limit of its own, so neither starves the other. That of planned writes is the smallest:
// nothing waits for them, but urgent reads queue up behind them in the drive. Beside planned reads,
// which would leave them little of the drive, their limit is twice as high. While one direction has
// urgent work, planned work of the other yields but continues: writes one at a time, reads with a
// quarter of their limit.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>

#include "storage/striping.h"
#include "storage/tier_store.h"

namespace teraio::storage {

// The position of a transfer in its direction's queue: urgent transfers first, then by `order`
// (when it became urgent, or the deadline of a planned read), then in order of submission.
struct QueuePlace {
  bool is_planned = true;
  int64_t order = 0;
  TransferId transfer = 0;

  auto operator<=>(const QueuePlace&) const = default;
};

// A part of a piece, of at most the request size.
struct QueuedRequest {
  TransferId transfer = 0;
  int32_t piece = 0;         // index among the extent's pieces
  int64_t offset_bytes = 0;  // within the piece
  int64_t size_bytes = 0;
  bool is_urgent = false;
};

// Threads: one at a time.
class DriveQueue {
 public:
  // The most requests in flight: `queue_depth` in each direction, `planned_write_depth` of planned
  // writes.
  DriveQueue(int64_t request_bytes, int32_t queue_depth, int32_t planned_write_depth)
      : request_bytes_(request_bytes),
        queue_depth_(queue_depth),
        planned_write_depth_(std::min(queue_depth, planned_write_depth)) {}

  void push(io::Direction direction, QueuePlace place, int32_t piece, int64_t size_bytes);

  // Removes the part of the transfer that next() has not returned.
  void remove(io::Direction direction, QueuePlace place);
  // Whether there is such a part.
  bool has(io::Direction direction, QueuePlace place) const;
  // Moves that part of a transfer from one place to another.
  void move(io::Direction direction, QueuePlace from, QueuePlace to);

  // Returns the next request that may be in flight, or nullopt. The request is in flight until
  // finish().
  std::optional<QueuedRequest> next();
  void finish(io::Direction direction, bool was_urgent);

  // Whether next() would return a request.
  bool can_start() const {
    return can_start(io::Direction::kRead) || can_start(io::Direction::kWrite);
  }
  bool is_empty() const {
    return lane(io::Direction::kRead).waiting.empty() &&
           lane(io::Direction::kWrite).waiting.empty();
  }
  int32_t in_flight(io::Direction direction) const { return lane(direction).in_flight; }

 private:
  struct Waiting {
    int64_t next_offset_bytes = 0;
    int64_t size_bytes = 0;
  };
  using Key = std::pair<QueuePlace, int32_t>;  // with the piece's index

  struct Lane {
    std::map<Key, Waiting> waiting;
    int32_t in_flight = 0;
    int32_t urgent_in_flight = 0;

    bool has_urgent_waiting() const {
      return !waiting.empty() && !waiting.begin()->first.first.is_planned;
    }
    bool is_busy() const { return in_flight > 0 || !waiting.empty(); }
    bool has_urgent() const { return urgent_in_flight > 0 || has_urgent_waiting(); }
  };

  Lane& lane(io::Direction direction) { return lanes_[static_cast<size_t>(direction)]; }
  const Lane& lane(io::Direction direction) const { return lanes_[static_cast<size_t>(direction)]; }
  // For the next request in that direction.
  int32_t in_flight_max(io::Direction direction) const;
  int32_t planned_writes_max() const;
  bool can_start(io::Direction direction) const;
  QueuedRequest take(Lane& lane);

  int64_t request_bytes_;
  int32_t queue_depth_;
  int32_t planned_write_depth_;
  std::array<Lane, 2> lanes_;
};

}  // namespace teraio::storage
