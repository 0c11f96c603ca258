// Arena: blocks of whole pages from one range of addresses, placed by when they will leave.
//
//      |####....####|..##|::::::::::::|     # in use   . free   : uncommitted
//
// A block gets a place in the gap whose neighbours leave at about the same time (gaps.h). If no gap
// is large enough, the arena commits more pages, `commit_bytes` at a time if it may. If that does
// not suffice, blocks have to move: find_room() chooses them, and the owner copies their bytes.
//
// Sizes are multiples of kPageBytes. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "base/range_set.h"
#include "device/address_space.h"
#include "device/device_memory.h"
#include "device/gaps.h"

namespace teraio::device {

class Arena {
 public:
  // `commit_bytes` is a multiple of the size of the space's pages.
  Arena(std::unique_ptr<AddressSpace> space, int64_t commit_bytes);

  // Returns a block of `size_bytes` (> 0, whole kPageBytes), or nullptr. held_bytes() grows by at
  // most `growth_limit_bytes`. With Effort::kUtmost, free pages return to the system where that
  // makes one range of others possible.
  std::byte* allocate(int64_t size_bytes, const Tenant& tenant, int64_t growth_limit_bytes,
                      Effort effort = Effort::kUsual);
  // Likewise, but nullptr unless a gap holds the block: no page is committed.
  std::byte* allocate_free(int64_t size_bytes, const Tenant& tenant);
  void release(const std::byte* block);
  void set_tenant(const std::byte* block, void* id);
  void set_leaves_at(const std::byte* block, double leaves_at);

  // As DeviceMemory::find_room() and relocate().
  std::vector<Relocation> find_room(int64_t size_bytes, const MayMove& may_move,
                                    int64_t most_bytes) const;
  void relocate(std::span<const Relocation> relocations);

  // Returns at least `size_bytes` of free pages to the system, or all of them if fewer are free:
  // multiples of `commit_bytes` first, then single pages. Stops early if the system refuses.
  void trim(int64_t size_bytes);

  bool contains(const std::byte* address) const { return space_->contains(address); }
  int64_t held_bytes() const { return held_bytes_; }  // in use and free
  int64_t free_bytes() const { return gaps_.total_bytes(); }
  // The size of the largest block that needs no other to move.
  int64_t largest_bytes(int64_t growth_limit_bytes) const;

 private:
  struct Block {
    int64_t size_bytes = 0;
    Tenant tenant;
  };
  using Blocks = std::pmr::map<int64_t, Block>;  // by offset

  // A place for a block that begins in free pages and goes on in uncommitted ones.
  struct Growth {
    int64_t block_bytes = 0;  // where the block begins
    ByteRange commit;
  };

  std::byte* take(int64_t offset_bytes, int64_t size_bytes, const Tenant& tenant);
  void add_gap(ByteRange range);
  std::optional<Growth> growth_at(ByteRange uncommitted, int64_t size_bytes,
                                  int64_t unit_bytes) const;
  std::optional<Growth> least_growth(int64_t size_bytes, int64_t unit_bytes) const;
  std::byte* grow(const Growth& growth, int64_t size_bytes, const Tenant& tenant);
  bool commit(ByteRange range);
  void commit_all(int64_t growth_limit_bytes);
  void close_holes();
  bool exchange_pages(int64_t size_bytes, int64_t growth_limit_bytes);
  int64_t trim_units(int64_t size_bytes, int64_t unit_bytes, ByteRange kept);
  bool decommit(ByteRange range);

  const std::unique_ptr<AddressSpace> space_;
  const int64_t commit_bytes_;
  std::pmr::unsynchronized_pool_resource nodes_;
  Blocks blocks_{&nodes_};
  Gaps gaps_;
  RangeSet uncommitted_;
  int64_t held_bytes_ = 0;
};

}  // namespace teraio::device
