#include "testing/fake_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/units.h"

namespace teraio::testing {
namespace {

constexpr int64_t kSmallAlignment = 64;
// Addresses cost no memory. They leave room for budgets that are raised later.
constexpr int64_t kAddressBytes = 16 * kGiB;

void* map_shared(int fd, int protection) {
  return mmap(nullptr, kAddressBytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
}

}  // namespace

Result<std::unique_ptr<FakeMemory>> FakeMemory::create(int64_t budget_bytes) {
  const int fd = memfd_create("teraio stepped device", MFD_CLOEXEC);
  const bool has_file = fd >= 0 && ftruncate(fd, kAddressBytes) == 0;
  void* addresses = has_file ? map_shared(fd, PROT_NONE) : MAP_FAILED;
  void* bytes = has_file ? map_shared(fd, PROT_READ | PROT_WRITE) : MAP_FAILED;
  if (fd >= 0) close(fd);
  if (addresses == MAP_FAILED || bytes == MAP_FAILED) {
    if (addresses != MAP_FAILED) munmap(addresses, kAddressBytes);
    return Status(ErrorCode::kUnsupported, "stepped device: the system refuses " +
                                               format_size(kAddressBytes) + " of addresses");
  }
  return std::unique_ptr<FakeMemory>(new FakeMemory(static_cast<std::byte*>(addresses),
                                                    static_cast<std::byte*>(bytes), kAddressBytes,
                                                    budget_bytes));
}

FakeMemory::FakeMemory(std::byte* addresses, std::byte* bytes, int64_t address_bytes,
                       int64_t budget_bytes)
    : addresses_(addresses), bytes_(bytes), address_bytes_(address_bytes), account_(budget_bytes) {}

FakeMemory::~FakeMemory() {
  munmap(addresses_, address_bytes_);
  munmap(bytes_, address_bytes_);
}

// Returns the offset, or -1.
int64_t FakeMemory::first_fit(int64_t held_bytes, int64_t alignment) const {
  int64_t offset = 0;
  for (const auto& [begin, block_bytes] : blocks_) {
    if (offset + held_bytes <= begin) return offset;
    offset = align_up(begin + block_bytes, alignment);
  }
  return offset + held_bytes <= address_bytes_ ? offset : -1;
}

std::byte* FakeMemory::allocate(int64_t size_bytes) {
  if (size_bytes > address_bytes_) return nullptr;
  const int64_t alignment = size_bytes < device::kPageBytes ? kSmallAlignment : device::kPageBytes;
  const int64_t held_bytes = align_up(std::max<int64_t>(size_bytes, 1), alignment);
  if (held_bytes > account_.room_bytes()) return nullptr;
  const int64_t offset = first_fit(held_bytes, alignment);
  if (offset < 0) return nullptr;
  blocks_[offset] = held_bytes;
  return account_.add(addresses_ + offset, size_bytes, held_bytes);
}

void FakeMemory::release(std::byte* memory) {
  account_.remove(memory);
  blocks_.erase(memory - addresses_);
}

std::byte* FakeMemory::bytes(const std::byte* address) const {
  return contains(address) ? bytes_ + (address - addresses_) : const_cast<std::byte*>(address);
}

bool FakeMemory::contains(const std::byte* address) const {
  return address >= addresses_ && address < addresses_ + address_bytes_;
}

}  // namespace teraio::testing
