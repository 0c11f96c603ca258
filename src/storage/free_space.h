// FreeSpace: the free byte ranges of one drive's file.
#pragma once

#include <cstdint>
#include <vector>

#include "base/range_set.h"

namespace teraio::storage {

// Allocates best fit with coalescing; ties go to the lowest offset. Deterministic: the same calls
// return the same ranges. All sizes are multiples of the caller's granularity. Threads: one at a
// time.
class FreeSpace {
 public:
  explicit FreeSpace(int64_t capacity_bytes);

  int64_t free_bytes() const { return free_.total_bytes(); }
  int64_t capacity_bytes() const { return capacity_bytes_; }

  // Requires 0 < size_bytes <= free_bytes(). Returns one range if a free range is large enough,
  // otherwise the largest ones, so that fragmentation never wastes space.
  std::vector<ByteRange> take(int64_t size_bytes);

  // Requires that all of `range` is free.
  void take_exactly(ByteRange range);

  // Frees `range`, which must be in use, as a whole or a part of what was taken.
  void give_back(ByteRange range);

 private:
  int64_t capacity_bytes_;
  RangeSet free_;
};

}  // namespace teraio::storage
