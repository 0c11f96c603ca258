// Gaps: the free ranges of an arena, and when the blocks beside them will leave.
//
// A block fits best beside one that leaves at about the same time, because the memory of both is
// then free together. Among such places, the one that leaves the least of its gap is best.
//
// A value: a copy can be tried out. Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/range_set.h"

namespace teraio::device {

struct Gap {
  int64_t begin_bytes = 0;
  int64_t end_bytes = 0;
  double below_leaves_at = 0;  // Tenant::leaves_at of what lies below the gap
  double above_leaves_at = 0;

  int64_t size_bytes() const { return end_bytes - begin_bytes; }
};

class Gaps {
 public:
  // Returns the offset of the best place for a block; nothing if no gap is large enough.
  std::optional<int64_t> place_for(int64_t size_bytes, double leaves_at) const;

  // Adds a range between blocks that leave at these times. It is merged with adjacent gaps.
  void insert(ByteRange range, double below_leaves_at, double above_leaves_at);
  // Removes a range that lies within one gap, for a block that leaves at that time.
  void erase(ByteRange range, double leaves_at);
  // The block in the range, which lies in no gap, leaves at that time.
  void note_leaves_at(ByteRange range, double leaves_at);
  // Removes all parts of the range that are free.
  void cut(ByteRange range);

  // By address.
  std::span<const Gap> all() const { return gaps_; }
  int64_t total_bytes() const { return total_bytes_; }
  int64_t largest_bytes() const;
  // The size of the gap that ends, or begins, exactly there; 0: there is none.
  int64_t bytes_ending_at(int64_t offset_bytes) const;
  int64_t bytes_starting_at(int64_t offset_bytes) const;

 private:
  std::vector<Gap>::const_iterator first_ending_after(int64_t offset_bytes) const;

  std::vector<Gap> gaps_;
  int64_t total_bytes_ = 0;
};

}  // namespace teraio::device
