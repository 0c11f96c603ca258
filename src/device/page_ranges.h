// PageRanges: a set of disjoint ranges of pages, found by size and by address.
//
// Neighbours are merged on insertion. Offsets and sizes are multiples of kPageBytes, counted from
// the start of some address space. All operations take O(log n). Not thread-safe.
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
  // `range` is not empty and overlaps nothing in the set. Returns the merged range that holds it.
  PageRange insert(PageRange range);

  // `range` lies within one range of the set; what is left of that stays.
  void erase(PageRange range);

  // Whether `range` lies within one range of the set.
  bool contains(PageRange range) const;

  // The range of the set that `range` lies within.
  PageRange holding(PageRange range) const;

  // The smallest range of at least this size, the lowest of equals.
  std::optional<PageRange> smallest_at_least(int64_t size_bytes) const;
  std::optional<PageRange> largest() const;
  // The range that ends exactly there.
  std::optional<PageRange> ending_at(int64_t offset_bytes) const;
  // The range that begins exactly there.
  std::optional<PageRange> starting_at(int64_t offset_bytes) const;

  // Calls visit(range) for what lies within `window`, cut off at its ends, by address. The set must
  // not change meanwhile.
  template <typename Visit>
  void for_each_in(PageRange window, Visit visit) const;
  // Calls visit(range) for the ranges of at least this size, the smallest first.
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
