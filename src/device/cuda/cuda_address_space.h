// CudaAddressSpace: an AddressSpace of a GPU's memory, by CUDA's virtual memory management.
//
// Each page is an allocation of its own (cuMemCreate), mapped at its addresses. The contents of
// pages that move are lost. A page stays mapped where it was, until another page is to be there or
// it returns to the system: compute that is enqueued may still use it there, so that a move does
// not wait for the GPU, and moves back take no call of the driver.
//
//     old addresses   |#### compute enqueued before ####|........ still mapped ........|
//     new addresses            ^ move()   |#### compute enqueued since ####
//
// Other pages at such addresses wait until compute has passed, and so does the return of pages. A
// page that the driver does not map once more is replaced by a new one when it is to move: that
// waits likewise, and takes the memory of both for a moment.
//
// Threads: one at a time. Errors other than a lack of memory are logged, and are refusals.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
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

// No further copy to the host is enqueued while it exists.
using PauseOfCopiesToHost = std::unique_lock<std::mutex>;

struct CudaAddressSpaceOptions {
  int32_t ordinal = 0;
  int64_t size_bytes = 0;   // of addresses, which cost no memory
  int64_t least_bytes = 0;  // below which reserve() fails
  // Rounded up to what the GPU maps at least.
  int64_t page_bytes = 0;
  ComputeProgress compute;
  // Called when several pages are mapped. May block; must not call the address space.
  std::function<PauseOfCopiesToHost()> pause_copies_to_host = [] { return PauseOfCopiesToHost(); };
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

  // Of the page at one offset, to another that is uncommitted.
  struct PageMove {
    int64_t from_bytes = 0;
    int64_t to_bytes = 0;
  };
  using PageIndex = int32_t;
  static constexpr PageIndex kNone = -1;
  struct Page {
    CUmemGenericAllocationHandle handle = 0;
    int64_t offset_bytes = 0;             // where it is
    std::vector<int64_t> former_offsets;  // where it is still mapped
  };
  // Pages whose old addresses compute may use until a point. The last one has no point while more
  // pages join it: points take calls of the runtime.
  struct Departure {
    std::vector<PageMove> moves;
    std::optional<Event> passed;
  };

  CUdeviceptr pointer(int64_t offset_bytes) const;
  PageIndex& mapped_at(int64_t offset_bytes) {
    return mapped_[static_cast<size_t>(offset_bytes / page_bytes())];
  }
  PageIndex mapped_at(int64_t offset_bytes) const {
    return mapped_[static_cast<size_t>(offset_bytes / page_bytes())];
  }
  Page& page_at(int64_t offset_bytes) {
    return pages_[static_cast<size_t>(mapped_at(offset_bytes))];
  }
  bool is_committed(int64_t offset_bytes) const {
    const PageIndex page = mapped_at(offset_bytes);
    return page != kNone && pages_[static_cast<size_t>(page)].offset_bytes == offset_bytes;
  }
  bool overlaps(const PageMove& move, int64_t PageMove::*side, ByteRange range) const;

  bool create(ByteRange range);
  bool create_page(int64_t offset_bytes);
  CUresult map(int64_t offset_bytes, PageIndex page);
  size_t map_again(std::span<const PageMove> moves);
  bool replace_page(const PageMove& move);
  bool make_accessible(std::span<const ByteRange> ranges);
  bool unmap(ByteRange range);
  bool unmap_former(ByteRange range);
  void remove(ByteRange range);
  void relabel(const PageMove& move);
  void note_departures(std::span<const PageMove> moves);
  void end_departure();
  bool wait_for(Departure& departure);
  bool has_passed(const Departure& departure) const;
  void forget_passed();
  bool clear(int64_t offset_bytes);
  void track(ByteRange range);
  void forget(ByteRange range);

  const CudaDriver& driver_;
  const CudaAddressSpaceOptions options_;
  const CUmemAllocationProp properties_;
  std::vector<PageIndex> mapped_;  // by address: the page that is mapped there
  std::vector<Page> pages_;
  std::vector<PageIndex> unused_pages_;  // entries of pages_ for later pages
  std::deque<Departure> departures_;     // in the order in which their points pass
  MemorySegments segments_;
  bool is_tracking_ = false;
};

}  // namespace teraio::device
