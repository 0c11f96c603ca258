#include "device/host_memory.h"

#include <fmt/format.h>
#include <linux/mman.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/units.h"
#include "device/device.h"
#include "device/system_memory.h"

namespace teraio::device {
namespace {

std::byte* map_pages(size_t size_bytes, int flags) {
  void* memory =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// Aligns the start to a huge page.
std::byte* map_plain(int64_t size_bytes) {
  const auto size = static_cast<size_t>(size_bytes);
  const size_t room = size + kHugePageBytes;
  std::byte* memory = map_pages(room, MAP_NORESERVE);
  if (memory == nullptr) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const size_t before =
      static_cast<size_t>(align_up(static_cast<int64_t>(address), kHugePageBytes)) -
      static_cast<size_t>(address);
  if (before > 0) munmap(memory, before);
  munmap(memory + before + size, room - before - size);
  return memory + before;
}

// Returns a description of the result.
std::string place_near(std::byte* memory, int64_t size_bytes, std::optional<int32_t> node) {
  if (!node) return "";
  const Status bound = prefer_numa_node(memory, size_bytes, *node);
  if (bound.ok()) return fmt::format(" on NUMA node {}", *node);
  spdlog::info("{} of host memory: {}", format_size(size_bytes), bound.message());
  return " (" + bound.message() + ")";
}

// A range of pages that is not yet HostMemory.
struct Pages {
  std::byte* memory = nullptr;
  std::string description;
};

// Takes huge pages that the administrator set aside, all of them now. The system reserves them at
// mmap(), and yet the limits of a control group or a cpuset may refuse one at its first access,
// with a SIGBUS. Refuses sizes that would waste part of a huge page.
std::optional<Pages> take_reserved_huge_pages(int64_t size_bytes, std::optional<int32_t> node) {
  if (size_bytes % kHugePageBytes != 0) return std::nullopt;
  const auto size = static_cast<size_t>(size_bytes);
  std::byte* memory = map_pages(size, MAP_HUGETLB | MAP_HUGE_2MB);
  if (memory == nullptr) return std::nullopt;
  const std::string place = place_near(memory, size_bytes, node);
  // Kernels before 5.14 cannot do this and do without these pages.
  if (madvise(memory, size, MADV_POPULATE_WRITE) == 0)
    return Pages{memory, "reserved huge pages" + place};
  spdlog::info("{} of reserved huge pages cannot be used: {}", format_size(size_bytes),
               errno_text(errno));
  munmap(memory, size);
  return std::nullopt;
}

std::optional<Pages> take_plain(int64_t size_bytes, const SystemMemory& system,
                                std::optional<int32_t> node) {
  std::byte* memory = map_plain(size_bytes);
  if (memory == nullptr) return std::nullopt;
  const bool is_huge =
      madvise(memory, size_bytes, MADV_HUGEPAGE) == 0 && system.transparent_huge_pages != "never";
  return Pages{memory, (is_huge ? "transparent huge pages" : "small pages") +
                           place_near(memory, size_bytes, node)};
}

void pin_in_part(const Pages& pages, int64_t size_bytes, HostPinning& pinning) {
  const Status pinned = pinning.pin(pages.memory, size_bytes);
  if (pinned.ok()) return;
  spdlog::warn(
      "{} of host memory cannot be pinned whole: {}. Copies to and from the device are slower; a "
      "lower host limit may avoid that",
      format_size(size_bytes), pinned.message());
}

}  // namespace

Result<HostMemory> HostMemory::map(int64_t size_bytes, Device& device, int32_t drive_node) {
  const SystemMemory system = read_system_memory("/sys");
  const auto node = nearest_node(system, device.numa_node(), drive_node);
  std::optional<Pages> pages = take_reserved_huge_pages(size_bytes, node);
  if (!pages) pages = take_plain(size_bytes, system, node);
  if (!pages)
    return Status(ErrorCode::kOutOfMemory,
                  "the system refuses " + format_size(size_bytes) +
                      " of host memory: free memory, or lower the host limit");
  HostPinning* pinning = device.host_pinning();
  const Status pinned = pinning == nullptr ? Status() : pinning->pin(pages->memory, size_bytes);
  if (!pinned.ok()) {
    pinning->unpin(pages->memory);  // a part
    if (std::byte* of_driver = pinning->allocate(size_bytes)) {
      spdlog::info("{} of host memory cannot be pinned, and come from the driver: {}",
                   format_size(size_bytes), pinned.message());
      munmap(pages->memory, size_bytes);
      return HostMemory(of_driver, size_bytes, pinning, Owner::kDriver, "memory of the driver");
    }
    pin_in_part(*pages, size_bytes, *pinning);
  }
  return HostMemory(pages->memory, size_bytes, pinning, Owner::kProcess,
                    std::move(pages->description));
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      size_bytes_(other.size_bytes_),
      pinning_(other.pinning_),
      owner_(other.owner_),
      description_(std::move(other.description_)) {}

HostMemory::~HostMemory() {
  if (memory_ == nullptr) return;
  if (owner_ == Owner::kDriver) {
    pinning_->free(memory_);
    return;
  }
  if (pinning_ != nullptr) pinning_->unpin(memory_);
  munmap(memory_, size_bytes_);
}

}  // namespace teraio::device
