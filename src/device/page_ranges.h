// PageRanges: a set of disjoint page ranges, indexed by size and by address.
//
// insert() merges adjacent ranges. Offsets and sizes are multiples of kPageBytes; offsets count
// from the start of an address space. Operations on one range take O(log n). Threads: one at a
// time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace teraio::device {

struct PageRange {
  int64_t begin_bytes = 0;
  int64_t size_bytes = 0;

  int64_t end_bytes() const { return begin_bytes + size_bytes; }
  bool operator==(const PageRange&) const = default;
};

class PageRanges {
 public:
  // Adds a nonempty range that overlaps no range of the set. Returns the merged range that contains
  // it.
  PageRange insert(PageRange range);

  // Removes `range`, which lies within one range of the set; the rest of that range stays.
  void erase(PageRange range);

  // Whether `range` lies within one range of the set.
  bool contains(PageRange range) const;

  // Returns the range of the set that contains `range`. There must be one.
  PageRange holding(PageRange range) const;

  // The smallest range of at least this size. Among equals, the one with the lowest address.
  std::optional<PageRange> smallest_at_least(int64_t size_bytes) const;
  std::optional<PageRange> largest() const;
  // The range that ends exactly at this offset.
  std::optional<PageRange> ending_at(int64_t offset_bytes) const;
  // The range that begins exactly at this offset.
  std::optional<PageRange> starting_at(int64_t offset_bytes) const;

  // Calls visit(range) for the parts of the set within `window`, in address order. The set must not
  // change during the call.
  template <typename Visit>
  void for_each_in(PageRange window, Visit visit) const;
  // Calls visit(range) for every range of at least this size, smallest first. The set must not
  // change during the call.
  template <typename Visit>
  void for_each_at_least(int64_t size_bytes, Visit visit) const;

  int64_t total_bytes() const { return total_bytes_; }
  int64_t largest_bytes() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }
  size_t count() const { return by_address_.size(); }

 private:
  using Address = std::map<int64_t, int64_t>::iterator;  // begin -> size

  void add(PageRange range);
  void remove(Address entry);

  std::map<int64_t, int64_t> by_address_;
  std::set<std::pair<int64_t, int64_t>> by_size_;  // size, begin
  int64_t total_bytes_ = 0;
};

template <typename Visit>
void PageRanges::for_each_in(PageRange window, Visit visit) const {
  auto entry = by_address_.upper_bound(window.begin_bytes);
  if (entry != by_address_.begin()) --entry;
  for (; entry != by_address_.end() && entry->first < window.end_bytes(); ++entry) {
    const int64_t begin_bytes = std::max(entry->first, window.begin_bytes);
    const int64_t end_bytes = std::min(entry->first + entry->second, window.end_bytes());
    if (begin_bytes < end_bytes) visit(PageRange{begin_bytes, end_bytes - begin_bytes});
  }
}

template <typename Visit>
void PageRanges::for_each_at_least(int64_t size_bytes, Visit visit) const {
  for (auto entry = by_size_.lower_bound({size_bytes, 0}); entry != by_size_.end(); ++entry)
    visit(PageRange{entry->second, entry->first});
}

}  // namespace teraio::device
