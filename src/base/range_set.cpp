#include "base/range_set.h"

#include <iterator>

#include "base/check.h"

namespace teraio {

void RangeSet::add(ByteRange range) {
  by_address_.emplace(range.begin_bytes, range.size_bytes);
  by_size_.emplace(range.size_bytes, range.begin_bytes);
  total_bytes_ += range.size_bytes;
}

void RangeSet::remove(Address entry) {
  by_size_.erase({entry->second, entry->first});
  total_bytes_ -= entry->second;
  by_address_.erase(entry);
}

ByteRange RangeSet::insert(ByteRange range) {
  TERAIO_CHECK(range.size_bytes > 0);
  auto next = by_address_.lower_bound(range.begin_bytes);
  TERAIO_CHECK(next == by_address_.end() || next->first >= range.end_bytes());
  if (next != by_address_.begin()) {
    auto previous = std::prev(next);
    const int64_t previous_end = previous->first + previous->second;
    TERAIO_CHECK(previous_end <= range.begin_bytes);
    if (previous_end == range.begin_bytes) {
      range = {previous->first, previous->second + range.size_bytes};
      remove(previous);
    }
  }
  if (next != by_address_.end() && next->first == range.end_bytes()) {
    range.size_bytes += next->second;
    remove(next);
  }
  add(range);
  return range;
}

bool RangeSet::contains(ByteRange range) const {
  auto entry = by_address_.upper_bound(range.begin_bytes);
  if (entry == by_address_.begin()) return false;
  --entry;
  return entry->first + entry->second >= range.end_bytes();
}

ByteRange RangeSet::holding(ByteRange range) const {
  auto entry = by_address_.upper_bound(range.begin_bytes);
  TERAIO_CHECK(entry != by_address_.begin());
  --entry;
  const ByteRange whole{entry->first, entry->second};
  TERAIO_CHECK(range.size_bytes > 0 && whole.end_bytes() >= range.end_bytes());
  return whole;
}

void RangeSet::erase(ByteRange range) {
  const ByteRange whole = holding(range);
  remove(by_address_.find(whole.begin_bytes));
  if (whole.begin_bytes < range.begin_bytes)
    add({whole.begin_bytes, range.begin_bytes - whole.begin_bytes});
  if (range.end_bytes() < whole.end_bytes())
    add({range.end_bytes(), whole.end_bytes() - range.end_bytes()});
}

std::optional<ByteRange> RangeSet::smallest_at_least(int64_t size_bytes) const {
  auto entry = by_size_.lower_bound({size_bytes, 0});
  if (entry == by_size_.end()) return std::nullopt;
  return ByteRange{entry->second, entry->first};
}

std::optional<ByteRange> RangeSet::largest() const { return smallest_at_least(largest_bytes()); }

std::optional<ByteRange> RangeSet::ending_at(int64_t offset_bytes) const {
  auto entry = by_address_.lower_bound(offset_bytes);
  if (entry == by_address_.begin()) return std::nullopt;
  --entry;
  if (entry->first + entry->second != offset_bytes) return std::nullopt;
  return ByteRange{entry->first, entry->second};
}

std::optional<ByteRange> RangeSet::starting_at(int64_t offset_bytes) const {
  const auto entry = by_address_.find(offset_bytes);
  if (entry == by_address_.end()) return std::nullopt;
  return ByteRange{entry->first, entry->second};
}

}  // namespace teraio
