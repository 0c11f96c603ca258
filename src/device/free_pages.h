// FreePages: the free pages of a pool; which of them make up whole granules, and which are left
// over.
//
// A granule is an aligned run of pages. Not thread-safe.
#pragma once

#include <cstdint>

#include "device/page_ranges.h"

namespace teraio::device {

class FreePages {
 public:
  // A power of two, at least kPageBytes.
  explicit FreePages(int64_t granule_bytes) : granule_bytes_(granule_bytes) {}

  // As PageRanges' own.
  void insert(PageRange range);
  void erase(PageRange range);

  int64_t granule_bytes() const { return granule_bytes_; }
  const PageRanges& pages() const { return pages_; }
  // The free granules: a part of pages().
  const PageRanges& granules() const { return granules_; }
  // The others: beside pages in use, or alone among uncommitted addresses.
  const PageRanges& fragments() const { return fragments_; }

 private:
  // The granules within a range; empty when it holds none.
  PageRange inside(PageRange range) const;
  // Calls visit(range) for what is left of `range` beside its granules.
  template <typename Visit>
  void for_each_fragment(PageRange range, Visit visit) const;

  int64_t granule_bytes_;
  PageRanges pages_;
  PageRanges granules_;
  PageRanges fragments_;
};

}  // namespace teraio::device
