// HostMemory: page-aligned host memory that a device copies to and from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"

namespace teraio::device {

class Device;
class HostPinning;

// A page uses physical memory from its first access on; at once if the device pins it, or if it is
// one of the huge pages that the administrator reserved. The memory has huge pages where the system
// provides them. On machines with several NUMA nodes it lies on the node nearest to the device.
//
// Threads: as a value; distinct objects are independent. Owns the mapping.
class HostMemory {
 public:
  // Maps and pins a whole number of pages for `device`, which must outlive the result. If pinning
  // fails, returns memory of the device's driver; if that has none either, logs a warning and
  // returns memory of which a part may be pinned. `drive_node` is the
  // NUMA node of the drive that the memory serves; it decides if the device has no nearest node.
  // Returns kOutOfMemory if the system refuses the size.
  static Result<HostMemory> map(int64_t size_bytes, Device& device, int32_t drive_node = -1);

  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&&) = delete;
  ~HostMemory();

  std::byte* at(int64_t offset_bytes) const { return memory_ + offset_bytes; }
  int64_t size_bytes() const { return size_bytes_; }
  // For reports: "transparent huge pages on NUMA node 1".
  const std::string& description() const { return description_; }

 private:
  enum class Owner : uint8_t { kProcess, kDriver };

  HostMemory(std::byte* memory, int64_t size_bytes, HostPinning* pinning, Owner owner,
             std::string description)
      : memory_(memory),
        size_bytes_(size_bytes),
        pinning_(pinning),
        owner_(owner),
        description_(std::move(description)) {}

  std::byte* memory_;
  int64_t size_bytes_;
  HostPinning* pinning_;  // null: the memory is not pinned
  Owner owner_;
  std::string description_;
};

}  // namespace teraio::device
