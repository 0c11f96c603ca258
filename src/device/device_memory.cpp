#include "device/device_memory.h"

#include <algorithm>

#include "base/check.h"

namespace teraio::device {
namespace {

constexpr int64_t kLargestRequestBytes = int64_t{1} << 62;  // can be rounded up

}  // namespace

std::byte* DeviceMemory::allocate(int64_t size_bytes, Effort effort, const Tenant& tenant) {
  const int64_t room_bytes = std::min(account().room_bytes(), kLargestRequestBytes);
  if (size_bytes < 0 || size_bytes > room_bytes) return nullptr;
  return allocate_block(size_bytes, effort, tenant);
}

void DeviceMemory::release(std::byte* memory) {
  TERAIO_CHECK(account().has(memory));
  release_block(memory);
}

void DeviceMemory::set_tenant(const std::byte* memory, void* id) {
  TERAIO_CHECK(account().has(memory));
  note_tenant(memory, id);
}

void DeviceMemory::set_leaves_at(const std::byte* memory, double leaves_at) {
  TERAIO_CHECK(account().has(memory));
  note_leaves_at(memory, leaves_at);
}

std::vector<Relocation> DeviceMemory::find_room(int64_t size_bytes, const MayMove& may_move,
                                                int64_t most_bytes) const {
  if (size_bytes < 0 || size_bytes > account().room_bytes()) return {};
  return find_relocations(size_bytes, may_move, most_bytes);
}

void DeviceMemory::relocate(std::span<const Relocation> relocations) {
  for (const Relocation& relocation : relocations) TERAIO_CHECK(account().has(relocation.from));
  relocate_blocks(relocations);
}

void DeviceMemory::record_use(std::byte* memory, void* stream) {
  TERAIO_CHECK(account().has(memory));
  note_use(memory, stream);
}

void DeviceMemory::set_budget_bytes(int64_t budget_bytes) {
  change_budget(std::max<int64_t>(budget_bytes, 0));
}

}  // namespace teraio::device
