// CudaAddressSpace: an AddressSpace of a GPU's memory, by CUDA's virtual memory management.
//
// Each page is an allocation of its own (cuMemCreate), mapped at its addresses. The contents of
// pages that move are lost. Compute that is enqueued may still use them at their old addresses:
// these stay mapped to the same pages until it has passed, so that a move does not wait for the
// GPU. Only the return of pages to the system does, and a new use of such addresses.
//
//     old addresses   |#### compute enqueued before ####|........ unmapped ........|
//     new addresses            ^ move()   |#### compute enqueued since ####
//
// Threads: one at a time. Errors other than a lack of memory are logged, and are refusals.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "device/address_space.h"
#include "device/device.h"
#include "device/memory_segments.h"

namespace teraio::device {

struct CudaDriver;

// How far compute has come. Ops are not charged for the waits.
struct ComputeProgress {
  // The point that all compute enqueued so far reaches when it is done. Not ok: it never will.
  std::function<Result<Event>()> record;
  std::function<bool(Event)> has_passed;
  std::function<Status(Event)> wait;
};

struct CudaAddressSpaceOptions {
  int32_t ordinal = 0;
  int64_t size_bytes = 0;   // of addresses, which cost no memory
  int64_t least_bytes = 0;  // below which reserve() fails
  // Rounded up to what the GPU maps at least.
  int64_t page_bytes = 0;
  ComputeProgress compute;
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
  int64_t move(ByteRange from, int64_t to_bytes) override;

  // Whether compute that was enqueued before pages of `range` moved there may still use them.
  bool may_be_in_use(ByteRange range) const;

  // The committed pages, each of which is a segment. They are tracked from the first call on.
  MemorySegments& segments();

 private:
  CudaAddressSpace(const CudaDriver& driver, CudaAddressSpaceOptions options, std::byte* base,
                   int64_t size_bytes);

  CUdeviceptr pointer(int64_t offset_bytes) const;
  CUmemGenericAllocationHandle& page_at(int64_t offset_bytes) {
    return pages_[static_cast<size_t>(offset_bytes / page_bytes())];
  }
  // Old addresses of pages that have moved.
  struct Left {
    ByteRange from;
    int64_t to_bytes = 0;
    Event passed;  // from then on nothing uses the old addresses
  };

  bool create(ByteRange range);
  bool map(ByteRange range);
  bool unmap(ByteRange range);
  void unmap_passed();
  bool unmap_left(size_t count);
  bool clear(ByteRange range);
  void release(ByteRange range);
  void track(ByteRange range);
  void forget(ByteRange range);

  const CudaDriver& driver_;
  const CudaAddressSpaceOptions options_;
  const CUmemAllocationProp properties_;
  std::vector<CUmemGenericAllocationHandle> pages_;  // 0: uncommitted
  std::deque<Left> left_;                            // as they moved, and as their points pass
  MemorySegments segments_;
  bool is_tracking_ = false;
};

}  // namespace teraio::device
