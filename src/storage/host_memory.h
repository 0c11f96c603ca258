// HostMemory: page-aligned memory of the host that a device copies to and from.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "device/device.h"

namespace teraio {

// Addresses at first: a page costs memory from its first use on, or at once where the device pins
// it. Huge pages where the system has them.
class HostMemory {
 public:
  // Pinned for `device`, which outlives the result; where that fails a warning is logged.
  // kOutOfMemory when the system refuses the size.
  static Result<HostMemory> map(int64_t size_bytes, Device& device);

  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&&) = delete;
  ~HostMemory();

  std::byte* at(int64_t offset_bytes) const { return memory_ + offset_bytes; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  HostMemory(std::byte* memory, int64_t size_bytes, Device& device);

  std::byte* memory_;
  int64_t size_bytes_;
  Device& device_;
  bool is_pinned_;
};

}  // namespace teraio
