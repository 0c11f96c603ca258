#include "storage/host_memory.h"

#include <spdlog/spdlog.h>
#include <sys/mman.h>

#include <utility>

#include "base/units.h"

namespace teraio {

Result<HostMemory> HostMemory::map(int64_t size_bytes, Device& device) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (memory == MAP_FAILED) {
    return Status(ErrorCode::kOutOfMemory,
                  "the system refuses " + format_size(size_bytes) + " of host memory");
  }
  madvise(memory, size_bytes, MADV_HUGEPAGE);  // advice: refused where there are no huge pages
  return HostMemory(static_cast<std::byte*>(memory), size_bytes, device);
}

HostMemory::HostMemory(std::byte* memory, int64_t size_bytes, Device& device)
    : memory_(memory), size_bytes_(size_bytes), device_(device) {
  const Status pinned = device.pin_host(memory, size_bytes);
  is_pinned_ = pinned.ok();
  if (!pinned.ok()) {
    spdlog::warn("{} of host memory stay unpinned, copies are slower: {}", format_size(size_bytes),
                 pinned.message());
  }
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      size_bytes_(other.size_bytes_),
      device_(other.device_),
      is_pinned_(other.is_pinned_) {}

HostMemory::~HostMemory() {
  if (memory_ == nullptr) return;
  if (is_pinned_) device_.unpin_host(memory_);
  munmap(memory_, size_bytes_);
}

}  // namespace teraio
