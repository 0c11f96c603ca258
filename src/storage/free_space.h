// FreeSpace: which bytes of one drive's file are free.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace teraio::storage {

struct ByteRange {
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;

  bool operator==(const ByteRange&) const = default;
};

// Best fit with coalescing; ties go to the lowest offset. A value: the same calls give the same
// ranges. All sizes are multiples of the caller's granularity. Not thread-safe.
class FreeSpace {
 public:
  explicit FreeSpace(int64_t capacity_bytes);

  int64_t free_bytes() const { return free_bytes_; }
  int64_t capacity_bytes() const { return capacity_bytes_; }

  // Requires 0 < size_bytes <= free_bytes(). One range when a free one is large enough, otherwise
  // the largest ones that there are: room is never lost to fragmentation.
  std::vector<ByteRange> take(int64_t size_bytes);

  // Requires that all of `range` is free.
  void take_exactly(ByteRange range);

  // `range` was taken, whole or in part, and not given back.
  void give_back(ByteRange range);

 private:
  void insert(ByteRange range);
  void erase(ByteRange range);
  ByteRange take_from(ByteRange free, int64_t size_bytes);

  int64_t capacity_bytes_;
  int64_t free_bytes_ = 0;
  std::map<int64_t, int64_t> size_by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;  // (size, offset)
};

}  // namespace teraio::storage
