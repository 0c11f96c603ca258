#include "device/page_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "device/device.h"

namespace teraio {
namespace {

constexpr int64_t kGrowthBytes = 2 * kMiB;  // a huge page: fewer calls, and the system can give one
constexpr int64_t kLargeGranules = 4;       // blocks from here on begin on a granule
// Pieces this small take longer to move than new pages take to be touched.
constexpr int64_t kCrumbBytes = 64 * kKiB;

}  // namespace

PagePool::PagePool(std::unique_ptr<AddressSpace> space, PagePoolOptions options)
    : options_(options), space_(std::move(space)), free_(options.granule_bytes) {
  unbacked_.insert({0, space_->size_bytes()});
}

std::byte* PagePool::allocate(int64_t size_bytes, int64_t growth_limit_bytes, Effort effort) {
  if (auto fit = find(size_bytes)) return take(*fit, size_bytes);
  const Supply granules{free_.granules(), free_.granule_bytes(), growth_limit_bytes, true};
  const Supply pages{free_.pages(), kPageBytes, growth_limit_bytes, effort == Effort::kUtmost};
  if (!extend(size_bytes, granules) && !extend(size_bytes, pages)) return nullptr;
  return take(*find(size_bytes), size_bytes);
}

std::optional<PageRange> PagePool::find(int64_t size_bytes) const {
  if (size_bytes >= kLargeGranules * free_.granule_bytes()) {
    const int64_t whole_bytes = align_up(size_bytes, free_.granule_bytes());
    if (auto fit = free_.granules().smallest_at_least(whole_bytes)) return fit;
  }
  return free_.pages().smallest_at_least(size_bytes);
}

std::byte* PagePool::take(PageRange fit, int64_t size_bytes) {
  free_.erase({fit.begin_bytes, size_bytes});
  return space_->at(fit.begin_bytes);
}

void PagePool::release(std::byte* block, int64_t size_bytes) {
  free_.insert({space_->offset_of(block), size_bytes});
}

PageRange PagePool::frontier() const {
  return unbacked_.largest().value_or(PageRange{space_->size_bytes(), 0});
}

PagePool::Tail PagePool::tail(const PageRanges& sources, int64_t unit_bytes) const {
  const PageRange room = frontier();
  const int64_t begin_bytes = align_up(room.begin_bytes, unit_bytes);
  Tail tail;
  tail.range = sources.ending_at(begin_bytes).value_or(PageRange{begin_bytes, 0});
  tail.room_bytes = std::max<int64_t>(room.end_bytes() - begin_bytes, 0) & -unit_bytes;
  return tail;
}

// Makes a free range of `size_bytes` at the frontier: by new pages first, then by those of other
// free ranges. False, with nothing changed, when the supply does not do.
bool PagePool::extend(int64_t size_bytes, const Supply& supply) {
  Tail tail = this->tail(supply.sources, supply.unit_bytes);
  const int64_t missing_bytes = align_up(size_bytes, supply.unit_bytes) - tail.range.size_bytes;
  const int64_t useful_bytes = std::min(tail.room_bytes, align_up(missing_bytes, kGrowthBytes));
  const int64_t growth_bytes =
      std::clamp<int64_t>(supply.growth_limit_bytes, 0, useful_bytes) & -supply.unit_bytes;
  const int64_t scattered_bytes =
      supply.may_stitch ? supply.sources.total_bytes() - tail.range.size_bytes : 0;
  if (missing_bytes > tail.room_bytes) return false;
  if (missing_bytes > growth_bytes + scattered_bytes) return false;
  if (growth_bytes > 0 && !grow({tail.range.end_bytes(), growth_bytes})) return false;
  tail.range.size_bytes += growth_bytes;
  if (growth_bytes >= missing_bytes) return true;
  return stitch(tail.range, missing_bytes - growth_bytes, supply.sources);
}

bool PagePool::grow(PageRange fresh) {
  if (!space_->back(fresh)) return false;
  unbacked_.erase(fresh);
  free_.insert(fresh);
  held_bytes_ += fresh.size_bytes;
  return true;
}

// Lengthens the tail by pages of other free ranges: the largest ones first (few pieces), and for
// the last piece the range that fits best. The tail is taken out meanwhile, so that it is not a
// source of its own pages.
bool PagePool::stitch(PageRange tail, int64_t missing_bytes, const PageRanges& sources) {
  if (tail.size_bytes > 0) free_.erase(tail);
  bool moved = true;
  while (moved && missing_bytes > 0) {
    auto fit = sources.smallest_at_least(missing_bytes);
    PageRange from = fit ? *fit : *sources.largest();
    from.size_bytes = std::min(from.size_bytes, missing_bytes);
    moved = move_free_pages(from, tail.end_bytes());
    if (moved) tail.size_bytes += from.size_bytes;
    missing_bytes -= from.size_bytes;
  }
  if (tail.size_bytes > 0) free_.insert(tail);
  stitch_count_ += moved ? 1 : 0;
  return moved;
}

// Leaves the pages at their new place out of the free ones. On failure they are free, wherever they
// are then.
bool PagePool::move_free_pages(PageRange from, int64_t to_bytes) {
  PageRange moved{to_bytes, 0};
  while (moved.size_bytes < from.size_bytes) {
    const PageRange rest{from.begin_bytes + moved.size_bytes, from.size_bytes - moved.size_bytes};
    const int64_t piece_bytes = move_piece(rest, moved.end_bytes());
    if (piece_bytes == 0) break;
    moved.size_bytes += piece_bytes;
  }
  if (moved.size_bytes == from.size_bytes) return true;
  if (moved.size_bytes > 0) free_.insert(moved);
  return false;
}

// What goes in one call. Returns how many bytes from the front went.
int64_t PagePool::move_piece(PageRange from, int64_t to_bytes) {
  if (mapping_count() >= options_.mapping_limit) return 0;
  if (has_crumbled(from)) {
    from.size_bytes = space_->replace(from, to_bytes) ? from.size_bytes : 0;
  } else {
    from.size_bytes = space_->move({from.begin_bytes, bytes_to_seam(from)}, to_bytes);
  }
  if (from.size_bytes == 0) return 0;
  free_.erase(from);
  unbacked_.erase({to_bytes, from.size_bytes});
  seams_.insert(to_bytes);
  seams_.insert(to_bytes + from.size_bytes);
  leave_unbacked(from);
  return from.size_bytes;
}

bool PagePool::has_crumbled(PageRange range) const {
  const auto first = seams_.upper_bound(range.begin_bytes);
  const auto last = seams_.lower_bound(range.end_bytes());
  int64_t left = range.size_bytes / kCrumbBytes;
  for (auto seam = first; seam != last && left >= 0; ++seam) --left;
  return left < 0;
}

int64_t PagePool::bytes_to_seam(PageRange range) const {
  auto seam = seams_.upper_bound(range.begin_bytes);
  if (seam == seams_.end()) return range.size_bytes;
  return std::min(*seam - range.begin_bytes, range.size_bytes);
}

// Within unbacked addresses there are no pages, hence no seams.
void PagePool::leave_unbacked(PageRange range) {
  const PageRange merged = unbacked_.insert(range);
  seams_.erase(seams_.upper_bound(merged.begin_bytes), seams_.lower_bound(merged.end_bytes()));
}

// From the frontier down, then out of the largest ranges: few new mappings.
void PagePool::trim(int64_t size_bytes) {
  int64_t left_bytes = align_up(std::min(size_bytes, free_bytes()), kPageBytes);
  while (left_bytes > 0) {
    const PageRange tail_range = tail(free_.pages(), kPageBytes).range;
    const PageRange range = tail_range.size_bytes > 0 ? tail_range : *free_.pages().largest();
    const int64_t part_bytes = std::min(left_bytes, range.size_bytes);
    const PageRange part{range.end_bytes() - part_bytes, part_bytes};
    if (!space_->unback(part)) return;
    free_.erase(part);
    leave_unbacked(part);
    held_bytes_ -= part_bytes;
    left_bytes -= part_bytes;
  }
}

int64_t PagePool::largest_bytes(int64_t growth_limit_bytes) const {
  const Tail tail = this->tail(free_.granules(), free_.granule_bytes());
  const int64_t growth_bytes =
      std::clamp<int64_t>(growth_limit_bytes, 0, tail.room_bytes) & -free_.granule_bytes();
  return std::max(free_.pages().largest_bytes(), tail.range.size_bytes + growth_bytes);
}

// At most: pages between two seams are one mapping, and so are unbacked neighbours.
int64_t PagePool::mapping_count() const { return seams_.size() + 2 * unbacked_.count(); }

}  // namespace teraio
