// PagePool: blocks of whole pages out of one address space, with every page reused.
//
//      |####....####|..##|::::::::::::::::::::::::::::|     # in use   . free   : unbacked
//                        ^ frontier
//
// A block comes from the smallest free range that holds it. When none does, the frontier (the start
// of the largest unbacked range) is pushed up: first by new pages as far as the caller lets the
// pool grow, then by moving the pages of other free ranges there ("stitching"). Free memory is thus
// usable however scattered it is.
//
// Every piece that moved stays a mapping of its own, and mappings are dear: the system limits their
// number, and each move costs a call. So that pieces do not become ever smaller, large blocks begin
// on a granule (an aligned run of pages) and only whole granules are stitched; single pages are a
// last resort. Small blocks use what is left beside large ones. A range that has crumbled all the
// same is replaced by new pages where it would be moved.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>

#include "device/address_space.h"
#include "device/free_pages.h"
#include "device/page_ranges.h"

namespace teraio {

struct PagePoolOptions {
  int64_t granule_bytes = int64_t{256} << 10;  // a power of two
  // Stitching stops when the pool uses more mappings of the system than this.
  int64_t mapping_limit = 32768;
};

class PagePool {
 public:
  PagePool(std::unique_ptr<AddressSpace> space, PagePoolOptions options);

  enum class Effort : uint8_t {
    kUsual,
    kUtmost,  // stitches single pages too: slow, but free memory is used to the last page
  };

  // A block of `size_bytes` (> 0, whole pages), growing by at most `growth_limit_bytes`; nullptr
  // when that does not do.
  std::byte* allocate(int64_t size_bytes, int64_t growth_limit_bytes,
                      Effort effort = Effort::kUsual);
  // `size_bytes` as allocated.
  void release(std::byte* block, int64_t size_bytes);

  // Gives at least `size_bytes` of free pages back to the system, or all that there are.
  void trim(int64_t size_bytes);

  bool contains(const std::byte* address) const { return space_->contains(address); }

  int64_t held_bytes() const { return held_bytes_; }  // in use and free
  int64_t free_bytes() const { return free_.pages().total_bytes(); }
  // The largest block to be had without moving pages.
  int64_t largest_bytes(int64_t growth_limit_bytes) const;
  int64_t stitch_count() const { return stitch_count_; }
  int64_t mapping_count() const;

 private:
  // The free range at the frontier, which an extension would lengthen, and how far it could.
  struct Tail {
    PageRange range;
    int64_t room_bytes = 0;
  };
  // What an extension is made of: whole units, from free ranges and from growth.
  struct Supply {
    const PageRanges& sources;
    int64_t unit_bytes;
    int64_t growth_limit_bytes;
    bool may_stitch;
  };

  std::optional<PageRange> find(int64_t size_bytes) const;
  std::byte* take(PageRange fit, int64_t size_bytes);
  PageRange frontier() const;
  Tail tail(const PageRanges& sources, int64_t unit_bytes) const;
  bool extend(int64_t size_bytes, const Supply& supply);
  bool grow(PageRange fresh);
  bool stitch(PageRange tail, int64_t missing_bytes, const PageRanges& sources);
  bool move_free_pages(PageRange from, int64_t to_bytes);
  int64_t move_piece(PageRange from, int64_t to_bytes);
  bool has_crumbled(PageRange range) const;
  int64_t bytes_to_seam(PageRange range) const;
  void leave_unbacked(PageRange range);

  const PagePoolOptions options_;
  std::unique_ptr<AddressSpace> space_;
  FreePages free_;       // backed, not in use
  PageRanges unbacked_;  // addresses without pages
  // Where pages of different origin meet: the system keeps them in different mappings, and pages of
  // several mappings cannot be moved in one call.
  std::set<int64_t> seams_;
  int64_t held_bytes_ = 0;
  int64_t stitch_count_ = 0;
};

}  // namespace teraio
