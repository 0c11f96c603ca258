#include "testing/cuda_emulation/device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace teraio::testing::emulated_cuda {
namespace {

constexpr size_t kPageBytes = DeviceMemory::kPageBytes;
// Addresses of freed memory are used again late, fragmentation of addresses never matters, and
// several sessions can reserve theirs.
constexpr size_t kAddressesPerByte = 128;

size_t whole_pages(size_t size_bytes) {
  return (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// Addresses without access rights, aligned to a page.
char* map_addresses(size_t size_bytes) {
  void* mapped = mmap(nullptr, size_bytes + kPageBytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    std::perror("emulated CUDA: mmap of addresses");
    std::abort();
  }
  return reinterpret_cast<char*>(whole_pages(reinterpret_cast<size_t>(mapped)));
}

// Sparse, and as large as files may be.
int make_physical_file() {
  const int file = memfd_create("emulated GPU memory", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, std::numeric_limits<int64_t>::max()) != 0) {
    std::perror("emulated CUDA: a file of device memory");
    std::abort();
  }
  return file;
}

}  // namespace

DeviceMemory::DeviceMemory(const Settings& settings)
    : limit_bytes_(settings.memory_bytes),
      poisons_(settings.poisons),
      address_bytes_(
          whole_pages(std::max(settings.memory_bytes * kAddressesPerByte, size_t{1} << 30))) {
  const size_t all_bytes = address_bytes_ * static_cast<size_t>(settings.device_count);
  low_ = map_addresses(all_bytes);
  high_ = low_ + all_bytes;
  shadow_offset_ = map_addresses(all_bytes) - low_;
  for (int32_t i = 0; i < settings.device_count; ++i)
    devices_.push_back(
        {FreeRanges(low_ + static_cast<size_t>(i) * address_bytes_, address_bytes_)});
  physical_file_ = make_physical_file();
}

bool DeviceMemory::take_bytes(int32_t device, size_t size_bytes) {
  size_t& used_bytes = devices_.at(device).used_bytes;
  if (size_bytes > limit_bytes_ - used_bytes) return false;
  used_bytes += size_bytes;
  return true;
}

void DeviceMemory::open_shadow(char* begin, size_t size_bytes) {
  char* bytes = shadow(begin);
  if (mprotect(bytes, size_bytes, PROT_READ | PROT_WRITE) != 0) {
    std::perror("emulated CUDA: mprotect of device memory");
    std::abort();
  }
  if (poisons_) std::memset(bytes, 0xFF, size_bytes);
}

void DeviceMemory::close_shadow(char* begin, size_t size_bytes) {
  madvise(shadow(begin), size_bytes, MADV_DONTNEED);
  mprotect(shadow(begin), size_bytes, PROT_NONE);
}

char* DeviceMemory::allocate(int32_t device, size_t size_bytes) {
  const size_t held_bytes = whole_pages(size_bytes);
  if (held_bytes < size_bytes || !take_bytes(device, held_bytes)) return nullptr;
  char* memory = devices_.at(device).addresses.take(held_bytes);
  if (memory == nullptr) {
    devices_.at(device).used_bytes -= held_bytes;
    return nullptr;
  }
  open_shadow(memory, held_bytes);
  in_use_.add(memory, held_bytes, {device, nullptr});
  return memory;
}

bool DeviceMemory::release(char* memory) {
  const auto* range = in_use_.starting_at(memory);
  if (range == nullptr || range->value.physical != nullptr) return false;
  Device& device = devices_.at(range->value.device);
  close_shadow(memory, range->size_bytes);
  device.used_bytes -= range->size_bytes;
  device.addresses.give_back(memory, range->size_bytes);
  in_use_.remove(memory);
  return true;
}

char* DeviceMemory::reserve_addresses(int32_t device, size_t size_bytes) {
  return devices_.at(device).addresses.take(size_bytes);
}

void DeviceMemory::release_addresses(char* begin, size_t size_bytes) {
  const size_t device = static_cast<size_t>(begin - low_) / address_bytes_;
  devices_.at(device).addresses.give_back(begin, size_bytes);
}

DeviceMemory::Physical* DeviceMemory::create_physical(int32_t device, size_t size_bytes) {
  if (!take_bytes(device, size_bytes)) return nullptr;
  const int64_t offset_bytes = physical_end_bytes_;
  physical_end_bytes_ += static_cast<int64_t>(size_bytes);
  return new Physical{device, size_bytes, offset_bytes, 1};
}

void DeviceMemory::drop_physical(Physical* physical) {
  if (--physical->user_count > 0) return;
  devices_.at(physical->device).used_bytes -= physical->size_bytes;
  fallocate(physical_file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, physical->offset_bytes,
            static_cast<off_t>(physical->size_bytes));
  delete physical;
}

bool DeviceMemory::map(char* begin, Physical* physical) {
  if (physical->map_count >= map_count_max_) return false;
  ++physical->map_count;
  map_shadow(begin, *physical);
  ++physical->user_count;
  in_use_.add(begin, physical->size_bytes, {physical->device, physical});
  return true;
}

// What is mapped elsewhere may be in use there.
void DeviceMemory::map_shadow(char* begin, const Physical& physical) {
  char* bytes = shadow(begin);
  const void* mapped = mmap(bytes, physical.size_bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_FIXED, physical_file_, physical.offset_bytes);
  if (mapped == MAP_FAILED) {
    std::perror("emulated CUDA: mmap of device memory");
    std::abort();
  }
  const bool is_mapped_elsewhere = physical.user_count > 1;
  if (poisons_ && !is_mapped_elsewhere) std::memset(bytes, 0xFF, physical.size_bytes);
}

bool DeviceMemory::unmap(char* begin, size_t size_bytes) {
  for (char* at = begin; at < begin + size_bytes;) {
    const auto* range = in_use_.starting_at(at);
    if (range == nullptr || range->value.physical == nullptr) return false;
    char* next = range->end();
    mmap(shadow(at), range->size_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    drop_physical(range->value.physical);
    in_use_.remove(at);
    at = next;
  }
  return true;
}

char* DeviceMemory::shadow(const void* address) const {
  char* at = static_cast<char*>(const_cast<void*>(address));
  return is_device_address(address) ? at + shadow_offset_ : at;
}

std::optional<int32_t> DeviceMemory::device_of(const void* address) const {
  const auto* range = in_use_.containing(address);
  if (range == nullptr) return std::nullopt;
  return range->value.device;
}

std::optional<int32_t> DeviceMemory::device_of_allocation(const void* begin) const {
  const auto* range = in_use_.starting_at(begin);
  if (range == nullptr || range->value.physical != nullptr) return std::nullopt;
  return range->value.device;
}

}  // namespace teraio::testing::emulated_cuda
