#include "device/cpu_device.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/units.h"
#include "device/arena.h"
#include "device/host_address_space.h"
#include "device/system_memory.h"

namespace teraio::device {
namespace {

constexpr int64_t kSmallAlignment = 64;  // of blocks below a page, which come from the C library
constexpr int64_t kSmallHeaderBytes = 16;
constexpr int64_t kTrimBytes = kMiB;  // decommitted at a time to make room for small blocks

// Addresses cost no memory. The range leaves room for pages that are exchanged and for a larger
// budget later.
int64_t wanted_address_bytes() {
  const int64_t memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::max(64 * kGiB, 16 * memory_bytes);
}

// Memory is taken in huge pages: ops touch them faster, and I/O pins fewer. A budget of only a few
// of them is taken in smaller parts.
int64_t commit_bytes(int64_t budget_bytes) {
  constexpr int64_t kHugePagesMin = 64;
  if (budget_bytes >= kHugePagesMin * kHugePageBytes) return kHugePageBytes;
  return static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(budget_bytes / 512, 64 * kKiB))));
}

class CpuDevice final : public Device {
 public:
  CpuDevice(std::unique_ptr<AddressSpace> space, int64_t budget_bytes)
      : arena_(std::move(space), commit_bytes(budget_bytes)), account_(budget_bytes) {}

  std::string_view name() const override { return "cpu"; }
  bool is_host_addressable() const override { return true; }
  const MemoryAccount& account() const override { return account_; }
  Status move_within(std::byte* to, const std::byte* from, int64_t size_bytes) override {
    std::memmove(to, from, static_cast<size_t>(size_bytes));
    return {};
  }
  Status fill(std::byte* memory, int64_t size_bytes, int value) override {
    std::memset(memory, value, static_cast<size_t>(size_bytes));
    return {};
  }

 private:
  std::byte* allocate_block(int64_t size_bytes, Effort effort, const Tenant& tenant) override;
  void release_block(std::byte* memory) override;
  void note_tenant(const std::byte* memory, void* id) override {
    if (arena_.contains(memory)) arena_.set_tenant(memory, id);
  }
  void note_leaves_at(const std::byte* memory, double leaves_at) override {
    if (arena_.contains(memory)) arena_.set_leaves_at(memory, leaves_at);
  }
  std::vector<Relocation> find_relocations(int64_t size_bytes, const MayMove& may_move,
                                           int64_t most_bytes) const override;
  void relocate_blocks(std::span<const Relocation> relocations) override;
  void change_budget(int64_t budget_bytes) override;
  void count_outside(int64_t size_bytes) override;
  void forget_peaks() override;
  MemoryUsage complete(MemoryUsage usage) const override;

  // Compute and copies are complete when their call returns.
  Result<Event> record_point(Stream) override { return Event{}; }
  bool is_past(Event) const override { return true; }
  Status wait_for(Event) override { return {}; }
  Status make_wait(Stream, Event) override { return {}; }
  Result<Event> start_copy(const Copy& copy) override {
    std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.size_bytes));
    return Event{};
  }

  std::byte* allocate_small(int64_t size_bytes);
  std::byte* allocate_pages(int64_t size_bytes, Effort effort, const Tenant& tenant);
  std::byte* hand_out(std::byte* memory, int64_t size_bytes, int64_t held_bytes);
  void trim_to_budget();
  int64_t reserved_bytes() const { return arena_.held_bytes() + small_bytes_ + outside_bytes_; }
  int64_t room_bytes() const { return account_.budget_bytes() - reserved_bytes(); }

  Arena arena_;
  MemoryAccount account_;
  int64_t small_bytes_ = 0;
  int64_t outside_bytes_ = 0;
  int64_t reserved_peak_bytes_ = 0;
};

std::byte* CpuDevice::allocate_block(int64_t size_bytes, Effort effort, const Tenant& tenant) {
  return size_bytes < kPageBytes ? allocate_small(size_bytes)
                                 : allocate_pages(size_bytes, effort, tenant);
}

std::byte* CpuDevice::allocate_pages(int64_t size_bytes, Effort effort, const Tenant& tenant) {
  const int64_t held_bytes = align_up(size_bytes, kPageBytes);
  return hand_out(arena_.allocate(held_bytes, tenant, room_bytes(), effort), size_bytes,
                  held_bytes);
}

std::vector<Relocation> CpuDevice::find_relocations(int64_t size_bytes, const MayMove& may_move,
                                                    int64_t most_bytes) const {
  if (size_bytes < kPageBytes) return {};
  return arena_.find_room(align_up(size_bytes, kPageBytes), may_move, most_bytes);
}

void CpuDevice::relocate_blocks(std::span<const Relocation> relocations) {
  arena_.relocate(relocations);
  for (const Relocation& relocation : relocations) account_.move(relocation.from, relocation.to);
}

std::byte* CpuDevice::allocate_small(int64_t size_bytes) {
  const int64_t held_bytes = align_up(size_bytes + kSmallHeaderBytes, kSmallAlignment);
  if (room_bytes() + arena_.free_bytes() < held_bytes) return nullptr;
  if (room_bytes() < held_bytes) arena_.trim(std::max(kTrimBytes, held_bytes - room_bytes()));
  void* memory = nullptr;
  if (posix_memalign(&memory, kSmallAlignment, std::max<int64_t>(size_bytes, 1)) != 0)
    return nullptr;
  small_bytes_ += held_bytes;
  return hand_out(static_cast<std::byte*>(memory), size_bytes, held_bytes);
}

std::byte* CpuDevice::hand_out(std::byte* memory, int64_t size_bytes, int64_t held_bytes) {
  if (memory == nullptr) return nullptr;
  reserved_peak_bytes_ = std::max(reserved_peak_bytes_, reserved_bytes());
  return account_.add(memory, size_bytes, held_bytes);
}

void CpuDevice::release_block(std::byte* memory) {
  const int64_t held_bytes = account_.remove(memory);
  if (arena_.contains(memory)) {
    arena_.release(memory);
  } else {
    small_bytes_ -= held_bytes;
    std::free(memory);
  }
  trim_to_budget();
}

void CpuDevice::trim_to_budget() {
  if (room_bytes() < 0) arena_.trim(-room_bytes());
}

void CpuDevice::change_budget(int64_t budget_bytes) {
  account_.set_budget_bytes(budget_bytes);
  trim_to_budget();
}

void CpuDevice::count_outside(int64_t size_bytes) {
  account_.add_outside_bytes(size_bytes);
  outside_bytes_ += size_bytes;
  trim_to_budget();
  reserved_peak_bytes_ = std::max(reserved_peak_bytes_, reserved_bytes());
}

MemoryUsage CpuDevice::complete(MemoryUsage usage) const {
  usage.reserved_bytes = reserved_bytes();
  usage.reserved_peak_bytes = reserved_peak_bytes_;
  usage.largest_free_bytes = arena_.largest_bytes(room_bytes());
  return usage;
}

void CpuDevice::forget_peaks() {
  account_.reset_peak();
  reserved_peak_bytes_ = reserved_bytes();
}

}  // namespace

Result<std::unique_ptr<Device>> make_cpu_device(int64_t budget_bytes) {
  auto space = HostAddressSpace::reserve(wanted_address_bytes(), kGiB);
  if (!space.ok()) return space.status();
  return std::unique_ptr<Device>(std::make_unique<CpuDevice>(std::move(*space), budget_bytes));
}

}  // namespace teraio::device
