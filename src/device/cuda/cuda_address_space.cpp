#include "device/cuda/cuda_address_space.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "device/cuda/cuda_driver.h"

namespace teraio::device {
namespace {

CUmemLocation location(int32_t ordinal) {
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = ordinal;
  return location;
}

Result<int> attribute(const CudaDriver& driver, CUdevice_attribute which, int32_t ordinal) {
  int value = 0;
  TERAIO_RETURN_IF_ERROR(cuda_driver_status(driver, driver.device_attribute(&value, which, ordinal),
                                            "ask for what the GPU can do"));
  return value;
}

// Drives and network cards may reach the memory where the GPU allows it.
CUmemAllocationProp properties(const CudaDriver& driver, int32_t ordinal) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location(ordinal);
  const Result<int> is_capable =
      attribute(driver, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, ordinal);
  properties.allocFlags.gpuDirectRDMACapable = is_capable.ok() && *is_capable != 0 ? 1 : 0;
  return properties;
}

// Logs what is not a lack of memory. Returns whether the call has succeeded.
bool is_done(const CudaDriver& driver, CUresult result, const char* what) {
  const Status status = cuda_driver_status(driver, result, what);
  if (!status.ok() && status.code() != ErrorCode::kOutOfMemory)
    spdlog::warn("teraio: {}", status.message());
  return status.ok();
}

bool overlap(ByteRange a, ByteRange b) {
  return a.begin_bytes < b.end_bytes() && b.begin_bytes < a.end_bytes();
}

}  // namespace

Result<std::unique_ptr<CudaAddressSpace>> CudaAddressSpace::reserve(
    CudaAddressSpaceOptions options) {
  const Result<const CudaDriver*> driver = cuda_driver();
  if (!driver.ok()) return driver.status();
  const CudaDriver& calls = **driver;
  const Result<int> is_supported =
      attribute(calls, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, options.ordinal);
  if (!is_supported.ok()) return is_supported.status();
  if (*is_supported == 0)
    return Status(ErrorCode::kUnsupported,
                  fmt::format("cuda:{}: expected a GPU whose driver manages virtual memory "
                              "(cuMemMap), which virtual GPUs may lack",
                              options.ordinal));
  const CUmemAllocationProp wanted = properties(calls, options.ordinal);
  size_t granularity_bytes = 0;
  TERAIO_RETURN_IF_ERROR(cuda_driver_status(
      calls, calls.granularity(&granularity_bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      "ask how memory is mapped"));
  options.page_bytes = align_up(options.page_bytes, static_cast<int64_t>(granularity_bytes));
  Status refused(ErrorCode::kUnsupported, "cuda: no addresses are wanted");
  for (int64_t size_bytes = options.size_bytes; size_bytes >= options.least_bytes;
       size_bytes /= 2) {
    const int64_t whole_bytes = align_up(size_bytes, options.page_bytes);
    CUdeviceptr begin = 0;
    refused =
        cuda_driver_status(calls,
                           calls.reserve_addresses(&begin, static_cast<size_t>(whole_bytes),
                                                   static_cast<size_t>(options.page_bytes), 0, 0),
                           "reserve addresses");
    if (!refused.ok()) continue;
    return std::unique_ptr<CudaAddressSpace>(new CudaAddressSpace(
        calls, std::move(options), reinterpret_cast<std::byte*>(begin), whole_bytes));
  }
  return Status(ErrorCode::kUnsupported, refused.message());
}

CudaAddressSpace::CudaAddressSpace(const CudaDriver& driver, CudaAddressSpaceOptions options,
                                   std::byte* base, int64_t size_bytes)
    : AddressSpace(base, size_bytes, options.page_bytes),
      driver_(driver),
      options_(std::move(options)),
      properties_(properties(driver, options_.ordinal)),
      pages_(static_cast<size_t>(size_bytes / options_.page_bytes)) {}

// Ignores errors: at process exit the driver may already be unloaded.
CudaAddressSpace::~CudaAddressSpace() {
  for (const Left& left : left_)
    driver_.unmap(pointer(left.from.begin_bytes), static_cast<size_t>(left.from.size_bytes));
  for (int64_t offset = 0; offset < size_bytes(); offset += page_bytes()) {
    if (page_at(offset) == 0) continue;
    if (is_tracking_) segments_.remove(at(offset));
    driver_.unmap(pointer(offset), static_cast<size_t>(page_bytes()));
    driver_.release(page_at(offset));
  }
  driver_.free_addresses(pointer(0), static_cast<size_t>(size_bytes()));
}

CUdeviceptr CudaAddressSpace::pointer(int64_t offset_bytes) const {
  return reinterpret_cast<CUdeviceptr>(at(offset_bytes));
}

bool CudaAddressSpace::commit(ByteRange range) {
  if (!clear(range) || !create(range)) return false;
  if (map(range)) {
    track(range);
    return true;
  }
  release(range);
  return false;
}

bool CudaAddressSpace::create(ByteRange range) {
  for (int64_t offset = range.begin_bytes; offset < range.end_bytes(); offset += page_bytes()) {
    const CUresult result =
        driver_.create(&page_at(offset), static_cast<size_t>(page_bytes()), &properties_, 0);
    if (is_done(driver_, result, "allocate memory")) continue;
    page_at(offset) = 0;
    release({range.begin_bytes, offset - range.begin_bytes});
    return false;
  }
  return true;
}

// Maps the pages that page_at() names. After a failure none is mapped.
bool CudaAddressSpace::map(ByteRange range) {
  CUmemAccessDesc access = {};
  access.location = location(options_.ordinal);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  int64_t offset = range.begin_bytes;
  bool is_mapped = true;
  for (; offset < range.end_bytes() && is_mapped; offset += page_bytes()) {
    const CUresult result =
        driver_.map(pointer(offset), static_cast<size_t>(page_bytes()), 0, page_at(offset), 0);
    is_mapped = is_done(driver_, result, "map memory");
    if (!is_mapped) break;
  }
  const auto size = static_cast<size_t>(range.size_bytes);
  if (is_mapped &&
      is_done(driver_, driver_.set_access(pointer(range.begin_bytes), size, &access, 1),
              "make memory accessible"))
    return true;
  if (offset > range.begin_bytes)
    driver_.unmap(pointer(range.begin_bytes), static_cast<size_t>(offset - range.begin_bytes));
  return false;
}

bool CudaAddressSpace::unmap(ByteRange range) {
  const auto size = static_cast<size_t>(range.size_bytes);
  return is_done(driver_, driver_.unmap(pointer(range.begin_bytes), size), "unmap memory");
}

void CudaAddressSpace::release(ByteRange range) {
  for (int64_t offset = range.begin_bytes; offset < range.end_bytes(); offset += page_bytes())
    driver_.release(std::exchange(page_at(offset), 0));
}

// The pages return when nothing maps them any more.
bool CudaAddressSpace::decommit(ByteRange range) {
  const Result<Event> last = options_.compute.record();
  if (!last.ok() || !options_.compute.wait(*last).ok() || !unmap_left(left_.size())) return false;
  forget(range);
  if (unmap(range)) {
    release(range);
    return true;
  }
  track(range);
  return false;
}

int64_t CudaAddressSpace::move(ByteRange from, int64_t to_bytes) {
  unmap_passed();
  const ByteRange to{to_bytes, from.size_bytes};
  const Result<Event> last = options_.compute.record();
  if (!last.ok() || !clear(to)) return 0;
  const auto exchange_pages = [&] {
    for (int64_t offset = 0; offset < from.size_bytes; offset += page_bytes())
      std::swap(page_at(from.begin_bytes + offset), page_at(to_bytes + offset));
  };
  exchange_pages();
  if (!map(to)) {
    exchange_pages();
    return 0;
  }
  forget(from);
  track(to);
  left_.push_back({from, to_bytes, *last});
  return from.size_bytes;
}

bool CudaAddressSpace::may_be_in_use(ByteRange range) const {
  return std::ranges::any_of(left_, [&](const Left& left) {
    return overlap({left.to_bytes, left.from.size_bytes}, range) &&
           !options_.compute.has_passed(left.passed);
  });
}

void CudaAddressSpace::unmap_passed() {
  size_t count = 0;
  while (count < left_.size() && options_.compute.has_passed(left_[count].passed)) ++count;
  unmap_left(count);
}

// Of the first ones, whose points have passed.
bool CudaAddressSpace::unmap_left(size_t count) {
  for (; count > 0; --count) {
    if (!unmap(left_.front().from)) return false;
    left_.pop_front();
  }
  return true;
}

// Makes addresses free that pages have left.
bool CudaAddressSpace::clear(ByteRange range) {
  size_t count = left_.size();
  while (count > 0 && !overlap(left_[count - 1].from, range)) --count;
  if (count == 0) return true;
  return options_.compute.wait(left_[count - 1].passed).ok() && unmap_left(count);
}

// --- Segments -----------------------------------------------------------------------------------

MemorySegments& CudaAddressSpace::segments() {
  if (std::exchange(is_tracking_, true)) return segments_;
  for (int64_t offset = 0; offset < size_bytes(); offset += page_bytes())
    if (page_at(offset) != 0) track({offset, page_bytes()});
  return segments_;
}

void CudaAddressSpace::track(ByteRange range) {
  if (!is_tracking_) return;
  for (int64_t offset = range.begin_bytes; offset < range.end_bytes(); offset += page_bytes())
    segments_.add({at(offset), page_bytes()});
}

void CudaAddressSpace::forget(ByteRange range) {
  if (!is_tracking_) return;
  for (int64_t offset = range.begin_bytes; offset < range.end_bytes(); offset += page_bytes())
    segments_.remove(at(offset));
}

}  // namespace teraio::device
