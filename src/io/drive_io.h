// DriveIo: moves bytes between memory and one drive. The interface of a backend.
//
// The layers above it, common to all backends, check bounds, split and order requests, complete
// short transfers, retry, compute checksums and describe errors.
//
// Threads: one thread, the drive's, calls submit() and wait(). Any thread may call wake().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "device/device.h"

namespace teraio::io {

// Direct I/O requires offsets, lengths and addresses to be multiples of this.
inline constexpr int64_t kBlockBytes = 4096;

enum class Direction : uint8_t {
  kRead,   // towards the device
  kWrite,  // away from it
};

struct IoRequest {
  Direction direction = Direction::kRead;
  std::byte* memory = nullptr;  // page-aligned
  int64_t offset_bytes = 0;     // in the drive's file; a multiple of kBlockBytes
  int64_t size_bytes = 0;       // a multiple of kBlockBytes, > 0
  uint64_t tag = 0;             // returned with the result; unique among requests in flight
  device::Event after;          // a device event; the memory is touched only after it has passed
  // If not null, and if the read is a single copy on the device, submit() stores the copy's end
  // here. The pointer is not used after submit().
  device::Event* arrival = nullptr;
};

struct IoResult {
  uint64_t tag = 0;
  // The number of bytes moved, possibly fewer than requested, or the negative number of an error:
  // an errno, or a number that the drive's error_text() explains.
  int64_t result = 0;
  // Not ok: the device's part of the transfer has failed, such as a copy. Then `result` has no
  // meaning, and the request is not repeated.
  Status failure = {};
};

class DriveIo {
 public:
  // No request may be in flight.
  virtual ~DriveIo() = default;

  // Describes the I/O path for reports: "io_uring direct".
  virtual std::string_view description() const = 0;

  // Describes the error whose negated number a result contained: "Input/output error (errno 5)".
  // Any thread.
  virtual std::string error_text(int64_t error_number) const;

  // Registers a buffer, so that requests within it need no lookup of its pages. The pages must stay
  // mapped and in place for as long as requests use them. Hence memory of a CpuDevice, which moves
  // pages, cannot be registered. Call this before the first submit(). A failure changes only
  // description().
  virtual Status register_memory(std::byte* /*memory*/, int64_t /*size_bytes*/) {
    return Status(ErrorCode::kUnsupported, "buffers are registered with io_uring alone");
  }

  // Queues a request, which starts no later than the next wait(). At most `in_flight_max` requests
  // (a factory's argument) may be in flight.
  virtual void submit(const IoRequest& request) = 0;

  // Appends the available results. Blocks while there is none, unless wake() was called since the
  // last return.
  virtual void wait(std::vector<IoResult>& results) = 0;

  // Makes the current wait(), or else the next one, return. Any thread.
  virtual void wake() = 0;
};

}  // namespace teraio::io
