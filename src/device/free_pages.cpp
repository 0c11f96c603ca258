#include "device/free_pages.h"

#include <algorithm>

#include "base/units.h"

namespace teraio {

PageRange FreePages::inside(PageRange range) const {
  const int64_t begin_bytes = align_up(range.begin_bytes, granule_bytes_);
  const int64_t end_bytes = range.end_bytes() & -granule_bytes_;
  return {begin_bytes, std::max<int64_t>(end_bytes - begin_bytes, 0)};
}

// The neighbours' granules are there already; new are the ones that `range` completes.
void FreePages::insert(PageRange range) {
  const PageRange merged = pages_.insert(range);
  const int64_t first_bytes = range.begin_bytes & -granule_bytes_;
  const int64_t last_bytes = align_up(range.end_bytes(), granule_bytes_);
  const int64_t begin_bytes = std::max(first_bytes, inside(merged).begin_bytes);
  const int64_t end_bytes = std::min(last_bytes, inside(merged).end_bytes());
  if (begin_bytes < end_bytes) granules_.insert({begin_bytes, end_bytes - begin_bytes});
}

// Gone are the granules that `range` touches, as far as they were whole.
void FreePages::erase(PageRange range) {
  const PageRange whole = inside(pages_.holding(range));
  const int64_t begin_bytes = std::max(range.begin_bytes & -granule_bytes_, whole.begin_bytes);
  const int64_t end_bytes =
      std::min(align_up(range.end_bytes(), granule_bytes_), whole.end_bytes());
  if (begin_bytes < end_bytes) granules_.erase({begin_bytes, end_bytes - begin_bytes});
  pages_.erase(range);
}

}  // namespace teraio
