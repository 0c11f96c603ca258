// PagePool: blocks of whole pages out of one address space, with every page reused.
//
//      |####....####|..##|::::::::::::::::::::::::::::|     # in use   . free   : uncommitted
//                        ^ frontier
//
// A block comes from the smallest free range that holds it. When none does, the frontier (the start
// of the largest uncommitted range) is pushed up by new pages, as far as the caller lets the pool
// grow. When that is not enough, pages of other free ranges are moved ("stitching"), so that free
// memory is usable however scattered it is.
//
// Every piece that moved stays a mapping of its own, and mappings are expensive: the system limits
// their number, each move costs a call, and ops on small pages are slow. So only whole granules
// (aligned runs of pages, best as large as a huge page) are moved, to a place beside a block in use
// where that takes the fewest of them. What is left of granules beside blocks ("fragments") makes
// the last part of other blocks; when whole granules are short, fragments are given back to the
// system for new ones. Single pages are a last resort, at the frontier. Granules that were put
// together from pieces are replaced by new ones where they would be moved.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "device/address_space.h"
#include "device/free_pages.h"
#include "device/page_ranges.h"

namespace teraio::device {

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

  // Where a block could be made, and what that takes.
  struct Place {
    PageRange block;
    int64_t missing_bytes = 0;  // to be committed, in whole granules
    int64_t used_bytes = 0;     // whole granules that are free no longer

    bool is_better_than(const Place& other) const {
      return std::tie(used_bytes, missing_bytes) < std::tie(other.used_bytes, other.missing_bytes);
    }
  };

  void renew_granules(PageRange range);
  void renew(PageRange granule);
  std::optional<PageRange> find(int64_t size_bytes) const;
  Place best_place(int64_t size_bytes) const;
  Place consider(PageRange block, PageRange gap) const;
  PageRange granules_around(PageRange block, PageRange gap) const;
  bool make_place(const Place& place, int64_t growth_limit_bytes);
  int64_t give_up_fragments(int64_t wanted_bytes);
  bool give_back(PageRange range);
  int64_t commit(PageRange range, int64_t& growth_left_bytes);
  int64_t grow_at(PageRange range, int64_t& growth_left_bytes);
  int64_t whole_granules(int64_t size_bytes) const { return size_bytes & -free_.granule_bytes(); }
  std::byte* take(PageRange fit, int64_t size_bytes);
  PageRange frontier() const;
  Tail tail(const PageRanges& sources, int64_t unit_bytes) const;
  bool extend(int64_t size_bytes, const Supply& supply);
  bool grow(PageRange fresh);
  bool patch_together(int64_t size_bytes);
  bool stitch(PageRange& tail, int64_t wanted_bytes, const PageRanges& sources);
  int64_t move_from(const PageRanges& sources, PageRange to);
  bool move_free_pages(PageRange from, int64_t to_bytes);
  int64_t move_piece(PageRange from, int64_t to_bytes);
  bool is_patchwork(PageRange range) const;
  int64_t count_boundaries(PageRange range, int64_t limit) const;
  int64_t bytes_to_boundary(PageRange range) const;
  void leave_uncommitted(PageRange range);

  const PagePoolOptions options_;
  std::unique_ptr<AddressSpace> space_;
  FreePages free_;          // committed, not in use
  PageRanges uncommitted_;  // addresses without pages
  PageRanges gaps_;         // addresses that no block uses: free and uncommitted ones
  // Where pages of different origin meet: the system keeps them in different mappings, and pages of
  // several mappings cannot be moved in one call.
  std::set<int64_t> boundaries_;
  int64_t held_bytes_ = 0;
  int64_t stitch_count_ = 0;
};

}  // namespace teraio::device
