// FreePages: the free pages of a pool, divided into whole granules and fragments.
//
// A granule is an aligned run of pages. Threads: one at a time.
#pragma once

#include <cstdint>

#include "base/range_set.h"

namespace teraio::device {

class FreePages {
 public:
  // `granule_bytes` is a power of two and at least kPageBytes.
  explicit FreePages(int64_t granule_bytes) : granule_bytes_(granule_bytes) {}

  // As RangeSet::insert() and erase().
  void insert(ByteRange range);
  void erase(ByteRange range);

  int64_t granule_bytes() const { return granule_bytes_; }
  const RangeSet& pages() const { return pages_; }
  // The free granules, a subset of pages().
  const RangeSet& granules() const { return granules_; }
  // The free pages outside free granules. They lie beside pages in use or beside uncommitted
  // addresses.
  const RangeSet& fragments() const { return fragments_; }

 private:
  // The whole granules within a range. Empty if there is none.
  ByteRange inside(ByteRange range) const;
  // Calls visit(range) for the parts of `range` before and after its granules.
  template <typename Visit>
  void for_each_fragment(ByteRange range, Visit visit) const;

  int64_t granule_bytes_;
  RangeSet pages_;
  RangeSet granules_;
  RangeSet fragments_;
};

}  // namespace teraio::device
