#include "device/host_address_space.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/units.h"
#include "device/device.h"
#include "device/system_memory.h"

namespace teraio::device {
namespace {

// Uses the same flags every time, so that the system can merge adjacent mappings.
bool map_anew(std::byte* address, int64_t size_bytes, int protection) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap(address, size_bytes, protection, kFlags, -1, 0) == MAP_FAILED) return false;
  madvise(address, size_bytes, MADV_HUGEPAGE);  // only advice: fails where there are no huge pages
  return true;
}

}  // namespace

Result<std::unique_ptr<HostAddressSpace>> HostAddressSpace::reserve(int64_t size_bytes,
                                                                    int64_t least_bytes) {
  for (; size_bytes >= least_bytes; size_bytes /= 2) {
    const int64_t mapping_bytes = align_up(size_bytes, kHugePageBytes) + kHugePageBytes;
    void* mapping =
        mmap(nullptr, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) continue;
    auto* start = static_cast<std::byte*>(mapping);
    auto* base =
        reinterpret_cast<std::byte*>(align_up(reinterpret_cast<int64_t>(mapping), kHugePageBytes));
    madvise(mapping, mapping_bytes, MADV_HUGEPAGE);
    return std::unique_ptr<HostAddressSpace>(
        new HostAddressSpace(start, mapping_bytes, base, align_up(size_bytes, kHugePageBytes)));
  }
  return Status(ErrorCode::kUnsupported,
                "the system refuses to reserve " + format_size(least_bytes) +
                    " of addresses: expected no lower limit on virtual memory (ulimit -v)");
}

HostAddressSpace::HostAddressSpace(std::byte* mapping, int64_t mapping_bytes, std::byte* base,
                                   int64_t size_bytes)
    : AddressSpace(base, size_bytes, kPageBytes),
      mapping_(mapping),
      mapping_bytes_(mapping_bytes) {}

HostAddressSpace::~HostAddressSpace() { munmap(mapping_, mapping_bytes_); }

// Makes a new mapping instead of changing the protection of the old one. The old mapping's page
// table and boundaries would leave the system fewer places for huge pages.
bool HostAddressSpace::commit(ByteRange range) {
  return map_anew(at(range.begin_bytes), range.size_bytes, PROT_READ | PROT_WRITE);
}

bool HostAddressSpace::decommit(ByteRange range) {
  return map_anew(at(range.begin_bytes), range.size_bytes, PROT_NONE);
}

}  // namespace teraio::device
