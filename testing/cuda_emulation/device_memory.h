// DeviceMemory: the memory of the emulated devices, in whole pages under a hard limit.
//
// A device address cannot be touched by the host: the pages there have no access rights. The bytes
// lie at another address, its shadow, where the CPU's kernels and copies find them. A shadow has
// access rights only while its memory is allocated, so that a use after the release faults.
// Physical memory that is mapped at several addresses has the same bytes at all of them.
//
// Threads: one at a time (the machine's lock), except shadow() and is_device_address().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "testing/cuda_emulation/address_ranges.h"
#include "testing/cuda_emulation/settings.h"

namespace teraio::testing::emulated_cuda {

class DeviceMemory {
 public:
  static constexpr size_t kPageBytes = size_t{2} << 20;

  explicit DeviceMemory(const Settings& settings);

  // Returns memory of `device`, or null when the device has too little left.
  char* allocate(int32_t device, size_t size_bytes);
  // False: no allocation begins at `memory`.
  bool release(char* memory);

  // CUDA's virtual memory: addresses, physical memory, and the mapping of one to the other. The
  // callers pass whole pages.
  char* reserve_addresses(int32_t device, size_t size_bytes);
  void release_addresses(char* begin, size_t size_bytes);
  struct Physical {
    int32_t device;
    size_t size_bytes;
    int64_t offset_bytes;  // in the file that has the bytes
    int32_t user_count;    // its handle, and its mappings
    int64_t map_count = 0;
  };
  // Null: the device has too little left.
  Physical* create_physical(int32_t device, size_t size_bytes);
  void drop_physical(Physical* physical);
  // False: it has been mapped too often.
  bool map(char* begin, Physical* physical);
  void limit_maps(int64_t map_count_max) { map_count_max_ = map_count_max; }
  // False: something in the range is not mapped.
  bool unmap(char* begin, size_t size_bytes);

  bool is_device_address(const void* address) const { return address >= low_ && address < high_; }
  // Where the CPU finds the byte at `address`; an address of the host is its own shadow.
  char* shadow(const void* address) const;
  bool is_allocated(const void* address, size_t size_bytes) const {
    return in_use_.cover(address, size_bytes);
  }
  // The device whose memory is allocated there.
  std::optional<int32_t> device_of(const void* address) const;
  // The allocation that begins there has this device.
  std::optional<int32_t> device_of_allocation(const void* begin) const;
  size_t used_bytes(int32_t device) const { return devices_.at(device).used_bytes; }
  size_t total_bytes() const { return limit_bytes_; }

 private:
  struct Device {
    FreeRanges addresses;
    size_t used_bytes = 0;
  };
  struct Use {
    int32_t device;
    Physical* physical;  // null: of allocate()
  };

  bool take_bytes(int32_t device, size_t size_bytes);
  void open_shadow(char* begin, size_t size_bytes);
  void close_shadow(char* begin, size_t size_bytes);
  void map_shadow(char* begin, const Physical& physical);

  const size_t limit_bytes_;
  const bool poisons_;
  const size_t address_bytes_;  // of one device
  std::vector<Device> devices_;
  RangesInUse<Use> in_use_;
  char* low_ = nullptr;
  char* high_ = nullptr;
  std::ptrdiff_t shadow_offset_ = 0;
  int physical_file_ = -1;
  int64_t physical_end_bytes_ = 0;  // no offset is used twice
  int64_t map_count_max_ = INT64_MAX;
};

}  // namespace teraio::testing::emulated_cuda
