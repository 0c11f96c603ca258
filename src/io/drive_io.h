// DriveIo: moves bytes between memory and one drive. What a backend has to implement.
//
// Everything else (bounds, splitting, order, short transfers, retries, checksums, errors as text)
// is done above it, once for all backends.
//
// Threads: submit and wait are called by one thread, the drive's own; wake by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "device/device.h"

namespace teraio::io {

// What direct I/O asks of offsets, lengths and addresses.
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
  uint64_t tag = 0;             // comes back with the result; unique among requests in flight
  device::Event after;          // of the device that the memory is on: touch it only when passed
  // Of a read that is one copy of the device: submit() leaves its end there. Not kept.
  device::Event* arrival = nullptr;
};

struct IoResult {
  uint64_t tag = 0;
  // Bytes moved, possibly fewer than asked for, or the negative number of an error: an errno, or
  // one that the drive's error_text() knows.
  int64_t result = 0;
};

class DriveIo {
 public:
  // Nothing is in flight any more.
  virtual ~DriveIo() = default;

  // "io_uring direct": what a person is told about the path that the bytes take.
  virtual std::string_view description() const = 0;

  // "Input/output error (errno 5)": the error whose negative number a result has given. Any thread.
  virtual std::string error_text(int64_t error_number) const;

  // Spares requests within this memory the look-up of its pages. These are held from then on: the
  // memory stays mapped, and its pages in place, for as long as requests name it. Never memory of a
  // CpuDevice, which moves pages to other addresses. Before the first submit(). A failure changes
  // nothing but the description.
  virtual Status register_memory(std::byte* /*memory*/, int64_t /*size_bytes*/) {
    return Status(ErrorCode::kUnsupported, "buffers are registered with io_uring alone");
  }

  // Takes a request. It may start at once, and has started by the next wait(). At most
  // `window` of them (a factory's argument) are in flight.
  virtual void submit(const IoRequest& request) = 0;

  // Appends the results that are there. Blocks while there is none, until wake() was called since
  // the last return.
  virtual void wait(std::vector<IoResult>& results) = 0;

  virtual void wake() = 0;
};

}  // namespace teraio::io
