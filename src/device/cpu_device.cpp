#include "device/cpu_device.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "device/host_address_space.h"
#include "device/page_pool.h"
#include "device/system_memory.h"

namespace teraio::device {
namespace {

constexpr int64_t kSmallAlignment = 64;  // of blocks below a page, which come from the C library
constexpr int64_t kSmallHeaderBytes = 16;
constexpr int64_t kLargestRequestBytes = int64_t{1} << 62;
constexpr int64_t kTrimBytes = kMiB;  // decommitted at a time to make room for small blocks

// Addresses cost no memory. The range leaves room for stitching and for a larger budget later.
int64_t wanted_address_bytes() {
  const int64_t memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::max(64 * kGiB, 16 * memory_bytes);
}

// Leaves half of the system's limit to the rest of the process.
int64_t mapping_limit() {
  int64_t limit = 65530;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  return limit / 2;
}

// A granule of one huge page keeps memory in huge pages however often it is stitched: ops touch
// them faster, and I/O pins fewer. A budget of only a few huge pages gets smaller granules, which
// waste less.
int64_t granule_bytes(int64_t budget_bytes) {
  constexpr int64_t kHugePagesMin = 64;
  if (budget_bytes >= kHugePagesMin * kHugePageBytes) return kHugePageBytes;
  return static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(budget_bytes / 512, 64 * kKiB))));
}

class CpuDevice final : public Device {
 public:
  CpuDevice(std::unique_ptr<AddressSpace> space, int64_t budget_bytes)
      : pages_(std::move(space),
               {.granule_bytes = granule_bytes(budget_bytes), .mapping_limit = mapping_limit()}),
        budget_bytes_(budget_bytes) {}

  std::string_view name() const override { return "cpu"; }
  std::byte* allocate(int64_t size_bytes) override {
    return allocate(size_bytes, PagePool::Effort::kUsual);
  }
  std::byte* allocate_at_all_costs(int64_t size_bytes) override {
    return allocate(size_bytes, PagePool::Effort::kUtmost);
  }
  void release(std::byte* memory) override;
  void set_budget_bytes(int64_t budget_bytes) override;
  void add_outside_bytes(int64_t size_bytes) override;
  MemoryUsage usage() const override;
  int64_t budget_bytes() const override { return budget_bytes_; }
  int64_t allocated_bytes() const override { return allocated_bytes_; }
  void reset_peak() override;

  Event record() override { return {}; }
  bool has_passed(Event) const override { return true; }
  Status wait(Event) override { return {}; }
  Status order_after(Event) override { return {}; }
  Result<Event> copy_to_host(std::byte* host, const std::byte* device, int64_t size_bytes,
                             Event after) override;
  Result<Event> copy_from_host(std::byte* device, const std::byte* host, int64_t size_bytes,
                               Event after) override;
  bool is_host_addressable() const override { return true; }

 private:
  struct Block {
    int64_t requested_bytes;
    int64_t held_bytes;
  };

  std::byte* allocate(int64_t size_bytes, PagePool::Effort effort);
  std::byte* allocate_small(int64_t size_bytes);
  std::byte* allocate_pages(int64_t size_bytes, PagePool::Effort effort);
  std::byte* hand_out(std::byte* memory, Block block);
  int64_t reserved_bytes() const { return pages_.held_bytes() + small_bytes_ + outside_bytes_; }
  int64_t room_bytes() const { return budget_bytes_ - reserved_bytes(); }

  PagePool pages_;
  std::unordered_map<std::byte*, Block> blocks_;
  int64_t budget_bytes_;
  int64_t small_bytes_ = 0;
  int64_t outside_bytes_ = 0;
  int64_t allocated_bytes_ = 0;
  int64_t allocated_peak_bytes_ = 0;
  int64_t reserved_peak_bytes_ = 0;
  int64_t rounding_bytes_ = 0;
};

std::byte* CpuDevice::allocate(int64_t size_bytes, PagePool::Effort effort) {
  if (size_bytes < 0 || size_bytes > kLargestRequestBytes) return nullptr;
  return size_bytes < kPageBytes ? allocate_small(size_bytes) : allocate_pages(size_bytes, effort);
}

std::byte* CpuDevice::allocate_pages(int64_t size_bytes, PagePool::Effort effort) {
  const int64_t held_bytes = align_up(size_bytes, kPageBytes);
  std::byte* memory = pages_.allocate(held_bytes, room_bytes(), effort);
  return memory == nullptr ? nullptr : hand_out(memory, {size_bytes, held_bytes});
}

std::byte* CpuDevice::allocate_small(int64_t size_bytes) {
  const int64_t held_bytes = align_up(size_bytes + kSmallHeaderBytes, kSmallAlignment);
  if (room_bytes() + pages_.free_bytes() < held_bytes) return nullptr;
  if (room_bytes() < held_bytes) pages_.trim(std::max(kTrimBytes, held_bytes - room_bytes()));
  void* memory = nullptr;
  if (posix_memalign(&memory, kSmallAlignment, std::max<int64_t>(size_bytes, 1)) != 0)
    return nullptr;
  small_bytes_ += held_bytes;
  return hand_out(static_cast<std::byte*>(memory), {size_bytes, held_bytes});
}

std::byte* CpuDevice::hand_out(std::byte* memory, Block block) {
  blocks_.emplace(memory, block);
  allocated_bytes_ += block.held_bytes;
  rounding_bytes_ += block.held_bytes - block.requested_bytes;
  allocated_peak_bytes_ = std::max(allocated_peak_bytes_, allocated_bytes_);
  reserved_peak_bytes_ = std::max(reserved_peak_bytes_, reserved_bytes());
  return memory;
}

void CpuDevice::release(std::byte* memory) {
  auto entry = blocks_.find(memory);
  TERAIO_CHECK(entry != blocks_.end());
  const Block block = entry->second;
  blocks_.erase(entry);
  allocated_bytes_ -= block.held_bytes;
  rounding_bytes_ -= block.held_bytes - block.requested_bytes;
  if (pages_.contains(memory)) {
    pages_.release(memory, block.held_bytes);
  } else {
    small_bytes_ -= block.held_bytes;
    std::free(memory);
  }
  if (room_bytes() < 0) pages_.trim(-room_bytes());
}

void CpuDevice::set_budget_bytes(int64_t budget_bytes) {
  budget_bytes_ = std::max<int64_t>(budget_bytes, 0);
  if (room_bytes() < 0) pages_.trim(-room_bytes());
}

void CpuDevice::add_outside_bytes(int64_t size_bytes) {
  outside_bytes_ += size_bytes;
  allocated_bytes_ += size_bytes;
  if (room_bytes() < 0) pages_.trim(-room_bytes());
  allocated_peak_bytes_ = std::max(allocated_peak_bytes_, allocated_bytes_);
  reserved_peak_bytes_ = std::max(reserved_peak_bytes_, reserved_bytes());
}

MemoryUsage CpuDevice::usage() const {
  MemoryUsage usage;
  usage.budget_bytes = budget_bytes_;
  usage.allocated_bytes = allocated_bytes_;
  usage.allocated_peak_bytes = allocated_peak_bytes_;
  usage.reserved_bytes = reserved_bytes();
  usage.reserved_peak_bytes = reserved_peak_bytes_;
  usage.rounding_bytes = rounding_bytes_;
  usage.largest_free_bytes = pages_.largest_bytes(room_bytes());
  usage.stitch_count = pages_.stitch_count();
  return usage;
}

void CpuDevice::reset_peak() {
  allocated_peak_bytes_ = allocated_bytes_;
  reserved_peak_bytes_ = reserved_bytes();
}

Result<Event> CpuDevice::copy_to_host(std::byte* host, const std::byte* device, int64_t size_bytes,
                                      Event) {
  std::memcpy(host, device, size_bytes);
  return Event{};
}

Result<Event> CpuDevice::copy_from_host(std::byte* device, const std::byte* host,
                                        int64_t size_bytes, Event) {
  std::memcpy(device, host, size_bytes);
  return Event{};
}

}  // namespace

Result<std::unique_ptr<Device>> make_cpu_device(int64_t budget_bytes) {
  auto space = HostAddressSpace::reserve(wanted_address_bytes(), kGiB);
  if (!space.ok()) return space.status();
  return std::unique_ptr<Device>(
      std::make_unique<CpuDevice>(std::move(*space), std::max<int64_t>(budget_bytes, 0)));
}

}  // namespace teraio::device
