// PagePool: blocks of whole pages from one address space, with reuse of every page.
//
//      |####....####|..##|::::::::::::::::::::::::::::|     # in use   . free   : uncommitted
//                        ^ frontier
//
// A block comes from the smallest free range that holds it. If there is none, the pool commits new
// pages at the frontier, the start of the largest uncommitted range, within the growth that the
// caller allows. If that does not suffice, it moves the pages of other free ranges ("stitching"),
// so that free memory is usable however scattered it is.
//
// Every fragment that moved remains a mapping of its own, and mappings are expensive: the system
// limits their number, each move is a system call, and ops run slower on small pages. The pool
// therefore moves only whole granules, which are aligned runs of pages, best as large as a huge
// page. It places the block beside a block in use, where that takes the fewest granules. The parts
// of granules beside blocks ("fragments") form the last part of other blocks. If too few whole
// granules are free, the pool returns fragments to the system in exchange for new granules. It
// moves single pages only as a last resort, at the frontier. Granules assembled from fragments are
// replaced by new ones when they become free, or when moving the fragments would cost more than new
// pages.
//
// Where the pages of the address space are as large as granules, as on a GPU, fragments stay where
// they are.
//
// Sizes are multiples of kPageBytes. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "base/range_set.h"
#include "device/address_space.h"
#include "device/device_memory.h"
#include "device/free_pages.h"

namespace teraio::device {

struct PagePoolOptions {
  int64_t granule_bytes = int64_t{256} << 10;  // a power of two
  // Stitching stops when the pool uses this many mappings.
  int64_t mapping_limit = 32768;
};

class PagePool {
 public:
  // The pages of `space` have kPageBytes or the size of a granule.
  PagePool(std::unique_ptr<AddressSpace> space, PagePoolOptions options);

  // Returns a block of `size_bytes` (> 0, whole pages), or nullptr. held_bytes() grows by at most
  // `growth_limit_bytes`. With Effort::kUtmost, also stitches single pages. The block is in use
  // until release().
  std::byte* allocate(int64_t size_bytes, int64_t growth_limit_bytes,
                      Effort effort = Effort::kUsual);
  // Likewise, but nullptr unless a free range holds the block: no page is committed or moved.
  std::byte* allocate_free(int64_t size_bytes);
  // `size_bytes` is the size that was allocated.
  void release(std::byte* block, int64_t size_bytes);

  // Returns at least `size_bytes` of free pages to the system, or all of them if fewer are free.
  // Stops early if the system refuses.
  void trim(int64_t size_bytes);

  bool contains(const std::byte* address) const { return space_->contains(address); }

  int64_t held_bytes() const { return held_bytes_; }  // in use and free
  int64_t free_bytes() const { return free_.pages().total_bytes(); }
  // The size of the largest block that needs no page to move, with growth in whole granules.
  int64_t largest_bytes(int64_t growth_limit_bytes) const;
  // How many bytes of whole granules are missing for a block as things are; 0: none. Releasing less
  // may complete them.
  int64_t shortage_bytes(int64_t size_bytes, int64_t growth_limit_bytes) const;
  int64_t stitch_count() const { return stitch_count_; }
  int64_t mapping_count() const;

 private:
  // The free range that ends at the frontier, and how many bytes it can grow.
  struct Tail {
    ByteRange range;
    int64_t room_bytes = 0;
  };
  // The pages that may extend the tail: whole units from free ranges and from growth.
  struct Supply {
    const RangeSet& sources;
    int64_t unit_bytes;
    int64_t growth_limit_bytes;
    bool may_stitch;
  };

  // A candidate position for a block, and its cost.
  struct Place {
    ByteRange block;
    int64_t missing_bytes = 0;  // bytes to commit, in whole granules
    int64_t used_bytes = 0;     // whole granules that are no longer free afterwards

    bool is_better_than(const Place& other) const {
      return std::tie(used_bytes, missing_bytes) < std::tie(other.used_bytes, other.missing_bytes);
    }
  };

  void renew_granules(ByteRange range);
  void renew(ByteRange granule);
  std::optional<ByteRange> find(int64_t size_bytes) const;
  Place best_place(int64_t size_bytes) const;
  Place consider(ByteRange block, ByteRange gap) const;
  ByteRange granules_around(ByteRange block, ByteRange gap) const;
  bool make_place(const Place& place, int64_t growth_limit_bytes);
  int64_t give_up_fragments(int64_t wanted_bytes);
  bool give_back(ByteRange range);
  int64_t commit(ByteRange range, int64_t& growth_left_bytes);
  int64_t grow_at(ByteRange range, int64_t& growth_left_bytes);
  int64_t whole_granules(int64_t size_bytes) const { return size_bytes & -free_.granule_bytes(); }
  std::byte* take(ByteRange fit, int64_t size_bytes);
  ByteRange frontier() const;
  Tail tail(const RangeSet& sources, int64_t unit_bytes) const;
  bool extend(int64_t size_bytes, const Supply& supply);
  bool grow(ByteRange fresh);
  bool patch_together(int64_t size_bytes);
  bool stitch(ByteRange& tail, int64_t wanted_bytes, const RangeSet& sources);
  int64_t move_from(const RangeSet& sources, ByteRange to);
  bool move_free_pages(ByteRange from, int64_t to_bytes);
  int64_t move_fragment(ByteRange from, int64_t to_bytes);
  bool can_split_granules() const { return space_->page_bytes() < free_.granule_bytes(); }
  // The free pages that can move or return to the system.
  const RangeSet& loose_pages() const {
    return can_split_granules() ? free_.pages() : free_.granules();
  }
  bool is_patchwork(ByteRange range) const;
  int64_t count_boundaries(ByteRange range, int64_t limit) const;
  int64_t bytes_to_boundary(ByteRange range) const;
  void leave_uncommitted(ByteRange range);

  const PagePoolOptions options_;
  std::unique_ptr<AddressSpace> space_;
  FreePages free_;        // committed and not in use
  RangeSet uncommitted_;  // addresses without pages
  RangeSet gaps_;         // addresses outside all blocks: free and uncommitted
  // The addresses where pages of different origin meet. The system keeps such pages in separate
  // mappings, and one call cannot move pages of several mappings.
  std::set<int64_t> boundaries_;
  int64_t held_bytes_ = 0;
  int64_t stitch_count_ = 0;
};

}  // namespace teraio::device
