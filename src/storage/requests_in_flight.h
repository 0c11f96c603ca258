// RequestsInFlight: what a drive has been given and has not answered, with since when.
//
// Threads: one at a time. No call fails. It holds as many requests as the drive's window.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "io/drive_io.h"

namespace teraio::storage {

struct RequestInFlight {
  uint64_t transfer = 0;
  io::Direction direction = io::Direction::kRead;
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;
  int64_t start_ns = 0;
};

class RequestsInFlight {
 public:
  // Requests are added in the order of their starts.
  void add(const RequestInFlight& request) { requests_.push_back(request); }

  // Removes the transfer's request at this offset, if it is there.
  void remove(uint64_t transfer, int64_t offset_bytes) {
    const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const auto& request) {
      return request.transfer == transfer && request.offset_bytes == offset_bytes;
    });
    if (found != requests_.end()) requests_.erase(found);
  }

  bool has(uint64_t transfer) const {
    return std::any_of(requests_.begin(), requests_.end(),
                       [&](const auto& request) { return request.transfer == transfer; });
  }

  std::optional<RequestInFlight> oldest() const {
    return requests_.empty() ? std::nullopt : std::optional(requests_.front());
  }
  std::optional<RequestInFlight> oldest(io::Direction direction) const {
    const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const auto& request) {
      return request.direction == direction;
    });
    return found == requests_.end() ? std::nullopt : std::optional(*found);
  }

 private:
  std::vector<RequestInFlight> requests_;
};

}  // namespace teraio::storage
