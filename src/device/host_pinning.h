// HostPinning: pins memory of the host, so that a device's copies run at full speed and do not
// block.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace teraio::device {

class HostPinning {
 public:
  virtual ~HostPinning() = default;

  // Pins the memory until unpin(). After a failure it is still usable, with slower copies, and a
  // part of it may be pinned: unpin() is to be called nevertheless.
  virtual Status pin(std::byte* host, int64_t size_bytes) = 0;
  virtual void unpin(std::byte* host) = 0;

  // Returns pinned memory of the device's driver, for systems that refuse to pin what a process has
  // mapped; nullptr if it has none. The caller owns it until free().
  virtual std::byte* allocate(int64_t size_bytes) = 0;
  virtual void free(std::byte* host) = 0;
};

}  // namespace teraio::device
