#include "base/range_set.h"

#include <iterator>
#include <utility>

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

void RangeSet::replace(Address entry, ByteRange range) {
  auto by_size = by_size_.extract({entry->second, entry->first});
  by_size.value() = {range.size_bytes, range.begin_bytes};
  by_size_.insert(std::move(by_size));
  total_bytes_ += range.size_bytes - entry->second;
  if (entry->first == range.begin_bytes) {
    entry->second = range.size_bytes;
    return;
  }
  const auto next = std::next(entry);
  auto by_address = by_address_.extract(entry);
  by_address.key() = range.begin_bytes;
  by_address.mapped() = range.size_bytes;
  by_address_.insert(next, std::move(by_address));
}

ByteRange RangeSet::insert(ByteRange range) {
  TERAIO_CHECK(range.size_bytes > 0);
  const auto next = by_address_.lower_bound(range.begin_bytes);
  TERAIO_CHECK(next == by_address_.end() || next->first >= range.end_bytes());
  Address known = by_address_.end();  // a range that becomes the merged one
  if (next != by_address_.begin()) {
    const auto previous = std::prev(next);
    const int64_t previous_end = previous->first + previous->second;
    TERAIO_CHECK(previous_end <= range.begin_bytes);
    if (previous_end == range.begin_bytes) {
      range = {previous->first, previous->second + range.size_bytes};
      known = previous;
    }
  }
  if (next != by_address_.end() && next->first == range.end_bytes()) {
    range.size_bytes += next->second;
    if (known == by_address_.end()) {
      known = next;
    } else {
      remove(next);
    }
  }
  if (known == by_address_.end()) {
    add(range);
  } else {
    replace(known, range);
  }
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
  const auto entry = by_address_.find(whole.begin_bytes);
  const ByteRange front{whole.begin_bytes, range.begin_bytes - whole.begin_bytes};
  const ByteRange back{range.end_bytes(), whole.end_bytes() - range.end_bytes()};
  if (front.size_bytes > 0) {
    replace(entry, front);
    if (back.size_bytes > 0) add(back);
  } else if (back.size_bytes > 0) {
    replace(entry, back);
  } else {
    remove(entry);
  }
}

std::optional<ByteRange> RangeSet::smallest_at_least(int64_t size_bytes) const {
  auto entry = by_size_.lower_bound({size_bytes, 0});
  if (entry == by_size_.end()) return std::nullopt;
  return ByteRange{entry->second, entry->first};
}

std::optional<ByteRange> RangeSet::largest() const { return smallest_at_least(largest_bytes()); }

}  // namespace teraio
