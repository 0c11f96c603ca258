#include "device/free_pages.h"

#include <algorithm>

#include "base/units.h"

namespace teraio::device {

ByteRange FreePages::inside(ByteRange range) const {
  const int64_t begin_bytes = align_up(range.begin_bytes, granule_bytes_);
  const int64_t end_bytes = range.end_bytes() & -granule_bytes_;
  return {begin_bytes, std::max<int64_t>(end_bytes - begin_bytes, 0)};
}

template <typename Visit>
void FreePages::for_each_fragment(ByteRange range, Visit visit) const {
  const ByteRange whole = inside(range);
  if (whole.size_bytes == 0) return visit(range);
  const ByteRange front{range.begin_bytes, whole.begin_bytes - range.begin_bytes};
  const ByteRange back{whole.end_bytes(), range.end_bytes() - whole.end_bytes()};
  if (front.size_bytes > 0) visit(front);
  if (back.size_bytes > 0) visit(back);
}

// Adds the granules that `range` completes. Those of its neighbours are already in the set.
void FreePages::insert(ByteRange range) {
  const auto forget = [&](ByteRange fragment) { fragments_.erase(fragment); };
  if (auto before = pages_.ending_at(range.begin_bytes)) for_each_fragment(*before, forget);
  if (auto after = pages_.starting_at(range.end_bytes())) for_each_fragment(*after, forget);
  const ByteRange merged = pages_.insert(range);
  for_each_fragment(merged, [&](ByteRange fragment) { fragments_.insert(fragment); });
  const int64_t first_bytes = range.begin_bytes & -granule_bytes_;
  const int64_t last_bytes = align_up(range.end_bytes(), granule_bytes_);
  const int64_t begin_bytes = std::max(first_bytes, inside(merged).begin_bytes);
  const int64_t end_bytes = std::min(last_bytes, inside(merged).end_bytes());
  if (begin_bytes < end_bytes) granules_.insert({begin_bytes, end_bytes - begin_bytes});
}

// Removes the free granules that `range` overlaps.
void FreePages::erase(ByteRange range) {
  const ByteRange held = pages_.holding(range);
  const ByteRange whole = inside(held);
  for_each_fragment(held, [&](ByteRange fragment) { fragments_.erase(fragment); });
  const int64_t begin_bytes = std::max(range.begin_bytes & -granule_bytes_, whole.begin_bytes);
  const int64_t end_bytes =
      std::min(align_up(range.end_bytes(), granule_bytes_), whole.end_bytes());
  if (begin_bytes < end_bytes) granules_.erase({begin_bytes, end_bytes - begin_bytes});
  pages_.erase(range);
  const auto note = [&](ByteRange fragment) { fragments_.insert(fragment); };
  const ByteRange front{held.begin_bytes, range.begin_bytes - held.begin_bytes};
  const ByteRange back{range.end_bytes(), held.end_bytes() - range.end_bytes()};
  if (front.size_bytes > 0) for_each_fragment(front, note);
  if (back.size_bytes > 0) for_each_fragment(back, note);
}

}  // namespace teraio::device
