#include "testing/cuda_emulation/pinned_memory.h"

#include <sys/mman.h>

namespace teraio::testing::emulated_cuda {

bool PinnedMemory::take_bytes(size_t size_bytes) {
  if (size_bytes > limit_bytes_ - used_bytes_) return false;
  used_bytes_ += size_bytes;
  return true;
}

char* PinnedMemory::allocate(size_t size_bytes) {
  if (!take_bytes(size_bytes)) return nullptr;
  void* memory =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    used_bytes_ -= size_bytes;
    return nullptr;
  }
  in_use_.add(static_cast<char*>(memory), size_bytes, {true});
  return static_cast<char*>(memory);
}

bool PinnedMemory::is_allocation(const void* memory) const {
  const auto* range = in_use_.starting_at(memory);
  return range != nullptr && range->value.is_allocation;
}

void PinnedMemory::release(void* memory) {
  const size_t freed_bytes = size_bytes(memory);
  remove(memory);
  munmap(memory, freed_bytes);
}

cudaError_t PinnedMemory::add(void* memory, size_t size_bytes) {
  if (memory == nullptr || size_bytes == 0) return cudaErrorInvalidValue;
  if (in_use_.overlaps(memory, size_bytes)) return cudaErrorHostMemoryAlreadyRegistered;
  if (!take_bytes(size_bytes)) return cudaErrorMemoryAllocation;
  in_use_.add(static_cast<char*>(memory), size_bytes, {false});
  return cudaSuccess;
}

bool PinnedMemory::is_registered(const void* memory) const {
  const auto* range = in_use_.starting_at(memory);
  return range != nullptr && !range->value.is_allocation;
}

size_t PinnedMemory::size_bytes(const void* memory) const {
  return in_use_.starting_at(memory)->size_bytes;
}

void PinnedMemory::remove(void* memory) {
  used_bytes_ -= size_bytes(memory);
  in_use_.remove(static_cast<char*>(memory));
}

PinnedMemory::Share PinnedMemory::share(const void* begin, size_t size_bytes) const {
  const char* last = static_cast<const char*>(begin) + size_bytes - 1;
  const auto* first_range = in_use_.containing(begin);
  const auto* last_range = in_use_.containing(last);
  if (first_range == nullptr && last_range == nullptr) return Share::kNone;
  return first_range == last_range ? Share::kAll : Share::kPart;
}

}  // namespace teraio::testing::emulated_cuda
