#include "device/cuda/cuda_address_space.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

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
  for (int64_t offset = 0; offset < size_bytes(); offset += page_bytes()) {
    if (page_at(offset) == 0) continue;
    forget({offset, page_bytes()});
    driver_.unmap(pointer(offset), static_cast<size_t>(page_bytes()));
    driver_.release(page_at(offset));
  }
  driver_.free_addresses(pointer(0), static_cast<size_t>(size_bytes()));
}

CUdeviceptr CudaAddressSpace::pointer(int64_t offset_bytes) const {
  return reinterpret_cast<CUdeviceptr>(at(offset_bytes));
}

bool CudaAddressSpace::commit(ByteRange range) {
  if (!create(range)) return false;
  if (make_accessible(range)) {
    track(range);
    return true;
  }
  unmap(range);
  remove(range);
  return false;
}

// After a failure there are no pages in the range.
bool CudaAddressSpace::create(ByteRange range) {
  for (int64_t offset = range.begin_bytes; offset < range.end_bytes(); offset += page_bytes()) {
    if (create_page(offset)) continue;
    const ByteRange created{range.begin_bytes, offset - range.begin_bytes};
    if (created.size_bytes > 0) unmap(created);
    remove(created);
    return false;
  }
  return true;
}

bool CudaAddressSpace::create_page(int64_t offset_bytes) {
  const auto size = static_cast<size_t>(page_bytes());
  CUmemGenericAllocationHandle page = 0;
  if (!is_done(driver_, driver_.create(&page, size, &properties_, 0), "allocate memory"))
    return false;
  if (!is_done(driver_, driver_.map(pointer(offset_bytes), size, 0, page, 0), "map memory")) {
    driver_.release(page);
    return false;
  }
  page_at(offset_bytes) = page;
  return true;
}

bool CudaAddressSpace::make_accessible(ByteRange range) {
  CUmemAccessDesc access = {};
  access.location = location(options_.ordinal);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const auto size = static_cast<size_t>(range.size_bytes);
  return is_done(driver_, driver_.set_access(pointer(range.begin_bytes), size, &access, 1),
                 "make memory accessible");
}

bool CudaAddressSpace::unmap(ByteRange range) {
  const auto size = static_cast<size_t>(range.size_bytes);
  return is_done(driver_, driver_.unmap(pointer(range.begin_bytes), size), "unmap memory");
}

// Of unmapped pages.
void CudaAddressSpace::remove(ByteRange range) {
  for (int64_t offset = range.begin_bytes; offset < range.end_bytes(); offset += page_bytes())
    driver_.release(std::exchange(page_at(offset), 0));
}

bool CudaAddressSpace::decommit(ByteRange range) {
  if (!options_.wait_for_compute().ok()) return false;
  forget(range);
  if (unmap(range)) {
    remove(range);
    return true;
  }
  track(range);
  return false;
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
