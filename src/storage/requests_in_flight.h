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
  io::Direction direction = io::Direction::kRead;
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;
  int64_t start_ns = 0;
};

class RequestsInFlight {
 public:
  // Requests are added in the order of their starts.
  void add(const RequestInFlight& request) { requests_.push_back(request); }

  // Removes the oldest request with this direction and offset. There is one.
  void remove(io::Direction direction, int64_t offset_bytes) {
    requests_.erase(std::find_if(requests_.begin(), requests_.end(), [&](const auto& request) {
      return request.direction == direction && request.offset_bytes == offset_bytes;
    }));
  }

  std::optional<RequestInFlight> oldest() const {
    return requests_.empty() ? std::nullopt : std::optional(requests_.front());
  }

 private:
  std::vector<RequestInFlight> requests_;
};

}  // namespace teraio::storage
