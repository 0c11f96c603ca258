// HostMemory: page-aligned memory of the host that a device copies to and from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "device/device.h"

namespace teraio::device {

// Addresses at first: a page costs memory from its first use on, or at once where the device pins
// it. Huge pages where the system has them, on the NUMA node nearest to the device where there are
// several.
class HostMemory {
 public:
  // Pinned for `device`, which outlives the result; where that fails a warning is logged.
  // `drive_node`, the NUMA node of the drive that the memory serves, decides where the device has
  // none. kOutOfMemory when the system refuses the size.
  static Result<HostMemory> map(int64_t size_bytes, Device& device, int32_t drive_node = -1);

  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&&) = delete;
  ~HostMemory();

  std::byte* at(int64_t offset_bytes) const { return memory_ + offset_bytes; }
  int64_t size_bytes() const { return size_bytes_; }
  // "transparent huge pages on NUMA node 1": for reports.
  const std::string& description() const { return description_; }

 private:
  HostMemory(std::byte* memory, int64_t size_bytes, Device& device, std::string description);

  std::byte* memory_;
  int64_t size_bytes_;
  Device& device_;
  std::string description_;
  bool is_pinned_;
};

}  // namespace teraio::device
