// RangeSet: a set of disjoint ranges of bytes, indexed by size and by address.
//
// insert() merges adjacent ranges. Operations on one range take O(log n). A value: the same calls
// give the same ranges. Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace teraio {

struct ByteRange {
  int64_t begin_bytes = 0;
  int64_t size_bytes = 0;

  int64_t end_bytes() const { return begin_bytes + size_bytes; }
  bool contains(int64_t offset_bytes) const {
    return offset_bytes >= begin_bytes && offset_bytes < end_bytes();
  }
  bool operator==(const ByteRange&) const = default;
};

class RangeSet {
 public:
  // Adds a nonempty range that overlaps no range of the set. Returns the merged range that contains
  // it.
  ByteRange insert(ByteRange range);

  // Removes `range`, which lies within one range of the set; the rest of that range stays.
  void erase(ByteRange range);

  // Whether `range` lies within one range of the set.
  bool contains(ByteRange range) const;

  // Returns the range of the set that contains `range`. There must be one.
  ByteRange holding(ByteRange range) const;

  // The smallest range of at least this size. Among equals, the one with the lowest address.
  std::optional<ByteRange> smallest_at_least(int64_t size_bytes) const;
  std::optional<ByteRange> largest() const;

  // Calls visit(range) for the parts of the set within `within`, in address order. The set must not
  // change during the call.
  template <typename Visit>
  void for_each_in(ByteRange within, Visit visit) const;

  int64_t total_bytes() const { return total_bytes_; }
  int64_t largest_bytes() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }
  size_t count() const { return by_address_.size(); }

 private:
  using Address = std::map<int64_t, int64_t>::iterator;  // begin -> size

  void add(ByteRange range);
  void remove(Address entry);
  // Instead of remove() and add(): allocates nothing.
  void replace(Address entry, ByteRange range);

  std::map<int64_t, int64_t> by_address_;
  std::set<std::pair<int64_t, int64_t>> by_size_;  // size, begin
  int64_t total_bytes_ = 0;
};

template <typename Visit>
void RangeSet::for_each_in(ByteRange within, Visit visit) const {
  auto entry = by_address_.upper_bound(within.begin_bytes);
  if (entry != by_address_.begin()) --entry;
  for (; entry != by_address_.end() && entry->first < within.end_bytes(); ++entry) {
    const int64_t begin_bytes = std::max(entry->first, within.begin_bytes);
    const int64_t end_bytes = std::min(entry->first + entry->second, within.end_bytes());
    if (begin_bytes < end_bytes) visit(ByteRange{begin_bytes, end_bytes - begin_bytes});
  }
}

}  // namespace teraio
