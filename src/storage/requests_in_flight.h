// RequestsInFlight: what a drive has been given and has not answered, with since when.
//
// A write, and a read straight into device memory, begins when compute has done with that memory,
// which may take long. Until that has been seen, no request has been in flight for any time, also a
// read through host memory, which the drive gets at once.
//
// Threads: one at a time. No call fails. It holds as many requests as the drive may have in flight.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "device/device_order.h"
#include "io/drive_io.h"

namespace teraio::storage {

struct RequestInFlight {
  uint64_t transfer = 0;
  io::Direction direction = io::Direction::kRead;
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;
  int64_t start_ns = 0;
  device::Event after;  // as in io::Chunk; the id 0 once it was seen to have passed
};

class RequestsInFlight {
 public:
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

  // Looks how far compute is at `now_ns`.
  void look_at(const device::DeviceOrder& device, int64_t now_ns) {
    for (RequestInFlight& request : requests_) {
      if (request.after.id == 0) continue;
      request.start_ns = now_ns;
      if (device.has_passed(request.after)) request.after = {};
    }
  }

  std::optional<RequestInFlight> oldest() const {
    const auto found = std::ranges::min_element(requests_, {}, &RequestInFlight::start_ns);
    return found == requests_.end() ? std::nullopt : std::optional(*found);
  }
  std::optional<RequestInFlight> oldest(io::Direction direction) const {
    std::optional<RequestInFlight> oldest;
    for (const RequestInFlight& request : requests_)
      if (request.direction == direction && (!oldest || request.start_ns < oldest->start_ns))
        oldest = request;
    return oldest;
  }

 private:
  std::vector<RequestInFlight> requests_;
};

}  // namespace teraio::storage
