#include "storage/free_space.h"

#include <algorithm>

#include "base/check.h"

namespace teraio::storage {

FreeSpace::FreeSpace(int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {
  if (capacity_bytes > 0) free_.insert({0, capacity_bytes});
}

std::vector<ByteRange> FreeSpace::take(int64_t size_bytes) {
  TERAIO_CHECK(size_bytes > 0 && size_bytes <= free_bytes());
  std::vector<ByteRange> taken;
  while (size_bytes > 0) {
    const ByteRange fit =
        free_.smallest_at_least(std::min(size_bytes, free_.largest_bytes())).value();
    taken.push_back({fit.begin_bytes, std::min(size_bytes, fit.size_bytes)});
    free_.erase(taken.back());
    size_bytes -= taken.back().size_bytes;
  }
  return taken;
}

void FreeSpace::take_exactly(ByteRange range) { free_.erase(range); }

void FreeSpace::give_back(ByteRange range) {
  TERAIO_CHECK(range.begin_bytes >= 0 && range.end_bytes() <= capacity_bytes_);
  free_.insert(range);
}

}  // namespace teraio::storage
