// CudaAddressSpace: an AddressSpace of a GPU's memory, by CUDA's virtual memory management.
//
// Each page is an allocation of its own (cuMemCreate), mapped at its addresses. A page returns to
// the system when all compute that is enqueued by then has passed: the calling thread waits for it.
//
// Threads: one at a time. Errors other than a lack of memory are logged, and are refusals.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "device/address_space.h"
#include "device/device.h"
#include "device/memory_segments.h"

namespace teraio::device {

struct CudaDriver;

struct CudaAddressSpaceOptions {
  int32_t ordinal = 0;
  int64_t size_bytes = 0;   // of addresses, which cost no memory
  int64_t least_bytes = 0;  // below which reserve() fails
  // Rounded up to what the GPU maps at least.
  int64_t page_bytes = 0;
  // Waits until all compute that is enqueued has passed. Not ok: it never will.
  std::function<Status()> wait_for_compute;
};

class CudaAddressSpace final : public AddressSpace {
 public:
  // As HostAddressSpace::reserve(). Returns kUnsupported also if the driver or the GPU does not
  // manage virtual memory.
  static Result<std::unique_ptr<CudaAddressSpace>> reserve(CudaAddressSpaceOptions options);

  // Returns all pages. No compute may use them.
  ~CudaAddressSpace() override;

  bool commit(ByteRange range) override;
  bool decommit(ByteRange range) override;

  // The committed pages, each of which is a segment. They are tracked from the first call on.
  MemorySegments& segments();

 private:
  CudaAddressSpace(const CudaDriver& driver, CudaAddressSpaceOptions options, std::byte* base,
                   int64_t size_bytes);

  CUdeviceptr pointer(int64_t offset_bytes) const;
  // 0: no page is mapped there.
  CUmemGenericAllocationHandle& page_at(int64_t offset_bytes) {
    return pages_[static_cast<size_t>(offset_bytes / page_bytes())];
  }
  bool create(ByteRange range);
  bool create_page(int64_t offset_bytes);
  bool make_accessible(ByteRange range);
  bool unmap(ByteRange range);
  void remove(ByteRange range);
  void track(ByteRange range);
  void forget(ByteRange range);

  const CudaDriver& driver_;
  const CudaAddressSpaceOptions options_;
  const CUmemAllocationProp properties_;
  std::vector<CUmemGenericAllocationHandle> pages_;  // by address
  MemorySegments segments_;
  bool is_tracking_ = false;
};

}  // namespace teraio::device
