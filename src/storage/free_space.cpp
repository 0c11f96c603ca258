#include "storage/free_space.h"

#include <iterator>

#include "base/check.h"

namespace teraio::storage {

FreeSpace::FreeSpace(int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {
  if (capacity_bytes > 0) insert({0, capacity_bytes});
}

void FreeSpace::insert(ByteRange range) {
  size_by_offset_.emplace(range.offset_bytes, range.size_bytes);
  by_size_.emplace(range.size_bytes, range.offset_bytes);
  free_bytes_ += range.size_bytes;
}

void FreeSpace::erase(ByteRange range) {
  size_by_offset_.erase(range.offset_bytes);
  by_size_.erase({range.size_bytes, range.offset_bytes});
  free_bytes_ -= range.size_bytes;
}

ByteRange FreeSpace::take_from(ByteRange free, int64_t size_bytes) {
  erase(free);
  if (free.size_bytes > size_bytes)
    insert({free.offset_bytes + size_bytes, free.size_bytes - size_bytes});
  return {free.offset_bytes, size_bytes};
}

std::vector<ByteRange> FreeSpace::take(int64_t size_bytes) {
  TERAIO_CHECK(size_bytes > 0 && size_bytes <= free_bytes_);
  std::vector<ByteRange> taken;
  while (size_bytes > 0) {
    auto best = by_size_.lower_bound({size_bytes, 0});
    if (best == by_size_.end()) best = std::prev(best);
    const ByteRange free{best->second, best->first};
    taken.push_back(take_from(free, std::min(size_bytes, free.size_bytes)));
    size_bytes -= taken.back().size_bytes;
  }
  return taken;
}

void FreeSpace::take_exactly(ByteRange range) {
  const int64_t end_bytes = range.offset_bytes + range.size_bytes;
  auto around = size_by_offset_.upper_bound(range.offset_bytes);
  TERAIO_CHECK(range.size_bytes > 0 && around != size_by_offset_.begin());
  --around;
  const ByteRange free{around->first, around->second};
  const int64_t free_end_bytes = free.offset_bytes + free.size_bytes;
  TERAIO_CHECK(free_end_bytes >= end_bytes);
  erase(free);
  if (range.offset_bytes > free.offset_bytes)
    insert({free.offset_bytes, range.offset_bytes - free.offset_bytes});
  if (free_end_bytes > end_bytes) insert({end_bytes, free_end_bytes - end_bytes});
}

void FreeSpace::give_back(ByteRange range) {
  const int64_t end_bytes = range.offset_bytes + range.size_bytes;
  TERAIO_CHECK(range.offset_bytes >= 0 && range.size_bytes > 0 && end_bytes <= capacity_bytes_);
  auto next = size_by_offset_.lower_bound(range.offset_bytes);
  TERAIO_CHECK(next == size_by_offset_.end() || next->first >= end_bytes);
  ByteRange merged = range;
  if (next != size_by_offset_.end() && next->first == end_bytes) {
    merged.size_bytes += next->second;
    const ByteRange after{next->first, next->second};
    ++next;
    erase(after);
  }
  if (next != size_by_offset_.begin()) {
    const auto [offset_bytes, size] = *std::prev(next);
    TERAIO_CHECK(offset_bytes + size <= range.offset_bytes);
    if (offset_bytes + size == range.offset_bytes) {
      erase({offset_bytes, size});
      merged = {offset_bytes, size + merged.size_bytes};
    }
  }
  insert(merged);
}

}  // namespace teraio::storage
