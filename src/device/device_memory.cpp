#include "device/device_memory.h"

#include <algorithm>

#include "base/check.h"

namespace teraio::device {
namespace {

constexpr int64_t kLargestRequestBytes = int64_t{1} << 62;  // can be rounded up

}  // namespace

std::byte* DeviceMemory::allocate(int64_t size_bytes, Effort effort) {
  const int64_t room_bytes = std::min(account().room_bytes(), kLargestRequestBytes);
  if (size_bytes < 0 || size_bytes > room_bytes) return nullptr;
  return allocate_block(size_bytes, effort);
}

void DeviceMemory::release(std::byte* memory) {
  TERAIO_CHECK(account().has(memory));
  release_block(memory);
}

bool DeviceMemory::may_be_in_use(const std::byte* memory) const {
  TERAIO_CHECK(account().has(memory));
  return is_block_in_use(memory);
}

void DeviceMemory::record_use(std::byte* memory, void* stream) {
  TERAIO_CHECK(account().has(memory));
  note_use(memory, stream);
}

void DeviceMemory::set_budget_bytes(int64_t budget_bytes) {
  change_budget(std::max<int64_t>(budget_bytes, 0));
}

}  // namespace teraio::device
