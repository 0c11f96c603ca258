#include "device/page_pool.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/units.h"

namespace teraio::device {
namespace {

// One huge page, so that there are fewer system calls and the system can provide one.
constexpr int64_t kGrowthBytes = 2 * kMiB;
constexpr int64_t kLargeGranules = 4;  // larger blocks begin on a granule where possible
constexpr int64_t kMostFragments = 4;  // maximum for the part of a granule, approximately
// Moving a smaller fragment takes longer than touching new pages.
constexpr int64_t kFragmentBytes = 64 * kKiB;

}  // namespace

PagePool::PagePool(std::unique_ptr<AddressSpace> space, PagePoolOptions options)
    : options_(options), space_(std::move(space)), free_(options.granule_bytes) {
  TERAIO_CHECK(space_->page_bytes() == kPageBytes || space_->page_bytes() == options.granule_bytes);
  uncommitted_.insert({0, space_->size_bytes()});
  gaps_.insert({0, space_->size_bytes()});
}

std::byte* PagePool::allocate(int64_t size_bytes, int64_t growth_limit_bytes, Effort effort) {
  if (std::byte* block = allocate_free(size_bytes)) return block;
  const Supply growth{free_.granules(), free_.granule_bytes(), growth_limit_bytes, false};
  if (extend(size_bytes, growth)) return take(*find(size_bytes), size_bytes);
  const Place place = best_place(size_bytes);
  if (can_split_granules() && place.used_bytes > whole_granules(size_bytes) &&
      patch_together(size_bytes))
    return take(*find(size_bytes), size_bytes);
  const int64_t held_before_bytes = held_bytes_;
  if (make_place(place, growth_limit_bytes)) return take(place.block, size_bytes);
  growth_limit_bytes -= held_bytes_ - held_before_bytes;
  const Supply pages{loose_pages(), space_->page_bytes(), growth_limit_bytes,
                     effort == Effort::kUtmost};
  if (!extend(size_bytes, pages)) return nullptr;
  return take(*find(size_bytes), size_bytes);
}

std::byte* PagePool::allocate_free(int64_t size_bytes) {
  const auto fit = find(size_bytes);
  return fit ? take(*fit, size_bytes) : nullptr;
}

std::optional<ByteRange> PagePool::find(int64_t size_bytes) const {
  if (size_bytes >= kLargeGranules * free_.granule_bytes()) {
    const int64_t whole_bytes = align_up(size_bytes, free_.granule_bytes());
    if (auto fit = free_.granules().smallest_at_least(whole_bytes)) return fit;
  }
  return free_.pages().smallest_at_least(size_bytes);
}

std::byte* PagePool::take(ByteRange fit, int64_t size_bytes) {
  free_.erase({fit.begin_bytes, size_bytes});
  gaps_.erase({fit.begin_bytes, size_bytes});
  return space_->at(fit.begin_bytes);
}

void PagePool::release(std::byte* block, int64_t size_bytes) {
  const ByteRange range{space_->offset_of(block), size_bytes};
  free_.insert(range);
  gaps_.insert(range);
  renew_granules(range);
}

// Replaces free granules in `range` that consist of fragments by new ones, which the system can
// back with huge pages. The gain for ops and I/O exceeds the cost of the replacement.
void PagePool::renew_granules(ByteRange range) {
  const int64_t granule_bytes = free_.granule_bytes();
  const int64_t first_bytes = range.begin_bytes & -granule_bytes;
  for (int64_t begin = first_bytes; begin < range.end_bytes(); begin += granule_bytes) {
    const ByteRange granule{begin, granule_bytes};
    if (count_boundaries(granule, 1) > 0 && free_.granules().contains(granule)) renew(granule);
  }
}

void PagePool::renew(ByteRange granule) {
  int64_t growth_bytes = granule.size_bytes;
  if (give_back(granule) && grow_at(granule, growth_bytes) > 0) free_.insert(granule);
}

// Considers both ends of every gap, but only the start of the last one, which extends to the end of
// the address space.
PagePool::Place PagePool::best_place(int64_t size_bytes) const {
  Place best{{}, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max()};
  const auto offer = [&](const Place& place) {
    if (place.is_better_than(best)) best = place;
  };
  gaps_.for_each_at_least(size_bytes, [&](ByteRange gap) {
    offer(consider({gap.begin_bytes, size_bytes}, gap));
    if (gap.end_bytes() < space_->size_bytes())
      offer(consider({gap.end_bytes() - size_bytes, size_bytes}, gap));
  });
  return best;
}

PagePool::Place PagePool::consider(ByteRange block, ByteRange gap) const {
  const ByteRange around = granules_around(block, gap);
  Place place{block};
  uncommitted_.for_each_in(around, [&](ByteRange range) {
    place.missing_bytes += align_up(range.size_bytes, free_.granule_bytes());
  });
  place.used_bytes = place.missing_bytes;
  free_.granules().for_each_in(around,
                               [&](ByteRange range) { place.used_bytes += range.size_bytes; });
  return place;
}

// The part of the gap within the granules that `block` overlaps.
ByteRange PagePool::granules_around(ByteRange block, ByteRange gap) const {
  const int64_t begin_bytes = block.begin_bytes & -free_.granule_bytes();
  const int64_t end_bytes = align_up(block.end_bytes(), free_.granule_bytes());
  const int64_t first_bytes = std::max(begin_bytes, gap.begin_bytes);
  return {first_bytes, std::min(end_bytes, gap.end_bytes()) - first_bytes};
}

// Commits the granules around the block. Meanwhile its own free pages are not in the free set, so
// that they are not moved onto themselves. If too few granules are free, exchanges fragments for
// new ones. Returns false if that does not suffice or the system refuses; pages that have moved are
// then free at their new place.
bool PagePool::make_place(const Place& place, int64_t growth_limit_bytes) {
  if (place.block.size_bytes == 0) return false;
  const ByteRange around = granules_around(place.block, gaps_.holding(place.block));
  std::vector<ByteRange> present;
  std::vector<ByteRange> missing;
  free_.pages().for_each_in(around, [&](ByteRange range) { present.push_back(range); });
  uncommitted_.for_each_in(around, [&](ByteRange range) { missing.push_back(range); });
  for (const ByteRange range : present) free_.erase(range);
  int64_t growth_left_bytes = std::max<int64_t>(growth_limit_bytes, 0);
  const int64_t scarce_bytes = place.missing_bytes - free_.granules().total_bytes();
  if (scarce_bytes > growth_left_bytes && can_split_granules() &&
      scarce_bytes - growth_left_bytes <= free_.fragments().total_bytes())
    growth_left_bytes += give_up_fragments(scarce_bytes - growth_left_bytes);
  bool is_made = scarce_bytes <= growth_left_bytes;
  for (size_t i = 0; i < missing.size() && is_made; ++i) {
    const int64_t made_bytes = commit(missing[i], growth_left_bytes);
    if (made_bytes > 0) present.push_back({missing[i].begin_bytes, made_bytes});
    is_made = made_bytes == missing[i].size_bytes;
  }
  for (const ByteRange range : present) free_.insert(range);
  stitch_count_ += is_made ? 1 : 0;
  return is_made;
}

// Returns at least `wanted_bytes` of fragments to the system, largest first, so that new pages can
// form whole granules. Returns the number of bytes given up.
int64_t PagePool::give_up_fragments(int64_t wanted_bytes) {
  int64_t given_bytes = 0;
  while (given_bytes < wanted_bytes) {
    const auto fragment = free_.fragments().largest();
    if (!fragment || !give_back(*fragment)) break;
    given_bytes += fragment->size_bytes;
  }
  return given_bytes;
}

bool PagePool::give_back(ByteRange range) {
  if (!space_->decommit(range)) return false;
  free_.erase(range);
  leave_uncommitted(range);
  held_bytes_ -= range.size_bytes;
  return true;
}

// Commits the front of an uncommitted range with new pages, then with free granules. Does not add
// the pages to the free set. Returns the number of bytes committed.
int64_t PagePool::commit(ByteRange range, int64_t& growth_left_bytes) {
  const int64_t grown_bytes = grow_at(range, growth_left_bytes);
  return grown_bytes + move_from(free_.granules(),
                                 {range.begin_bytes + grown_bytes, range.size_bytes - grown_bytes});
}

// Makes a free range of `size_bytes` at the frontier from whole granules and, for the last part of
// a granule, from fragments, so that no granule is split. Returns false if either is scarce, if the
// fragments are too small, or if a move fails; no page is lost.
bool PagePool::patch_together(int64_t size_bytes) {
  const int64_t whole_bytes = whole_granules(size_bytes);
  const int64_t rest_bytes = size_bytes - whole_bytes;
  if (whole_bytes > free_.granules().total_bytes()) return false;
  if (rest_bytes > free_.fragments().total_bytes()) return false;
  if (rest_bytes > kMostFragments * free_.fragments().largest_bytes()) return false;
  Tail tail = this->tail(free_.granules(), free_.granule_bytes());
  if (size_bytes - tail.range.size_bytes > tail.room_bytes) return false;
  ByteRange made = tail.range;
  made.size_bytes = std::min(made.size_bytes, whole_bytes);
  made.begin_bytes = tail.range.end_bytes() - made.size_bytes;
  if (!stitch(made, whole_bytes, free_.granules())) return false;
  if (!stitch(made, size_bytes, free_.fragments())) return false;
  ++stitch_count_;
  return true;
}

int64_t PagePool::grow_at(ByteRange range, int64_t& growth_left_bytes) {
  const int64_t growth_bytes = growth_left_bytes >= range.size_bytes
                                   ? range.size_bytes
                                   : growth_left_bytes & -free_.granule_bytes();
  if (growth_bytes == 0 || !space_->commit({range.begin_bytes, growth_bytes})) return 0;
  uncommitted_.erase({range.begin_bytes, growth_bytes});
  boundaries_.insert(range.begin_bytes);
  boundaries_.insert(range.begin_bytes + growth_bytes);
  held_bytes_ += growth_bytes;
  growth_left_bytes -= growth_bytes;
  return growth_bytes;
}

ByteRange PagePool::frontier() const {
  return uncommitted_.largest().value_or(ByteRange{space_->size_bytes(), 0});
}

PagePool::Tail PagePool::tail(const RangeSet& sources, int64_t unit_bytes) const {
  const ByteRange room = frontier();
  const int64_t begin_bytes = align_up(room.begin_bytes, unit_bytes);
  Tail tail;
  tail.range = sources.ending_at(begin_bytes).value_or(ByteRange{begin_bytes, 0});
  tail.room_bytes = std::max<int64_t>(room.end_bytes() - begin_bytes, 0) & -unit_bytes;
  return tail;
}

// Makes a free range of `size_bytes` at the frontier from new pages, then from other free ranges.
// Returns false, without a change, if the supply is too small; if the system refuses, pages that
// have moved stay free.
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
  const int64_t wanted_bytes = tail.range.size_bytes - growth_bytes + missing_bytes;
  if (!stitch(tail.range, wanted_bytes, supply.sources)) return false;
  ++stitch_count_;
  return true;
}

bool PagePool::grow(ByteRange fresh) {
  if (!space_->commit(fresh)) return false;
  uncommitted_.erase(fresh);
  free_.insert(fresh);
  held_bytes_ += fresh.size_bytes;
  return true;
}

// Extends the free range at the frontier to `wanted_bytes` with pages of other free ranges: the
// largest first, so that the fragments are few, and the best fit for the last fragment. Meanwhile
// the range is not in the free set, so that it is not a source for itself.
bool PagePool::stitch(ByteRange& tail, int64_t wanted_bytes, const RangeSet& sources) {
  if (tail.size_bytes > 0) free_.erase(tail);
  tail.size_bytes += move_from(sources, {tail.end_bytes(), wanted_bytes - tail.size_bytes});
  if (tail.size_bytes > 0) free_.insert(tail);
  return tail.size_bytes == wanted_bytes;
}

// Commits the front of an uncommitted range with pages of free ranges. Does not add the pages to
// the free set. Returns the number of bytes committed.
int64_t PagePool::move_from(const RangeSet& sources, ByteRange to) {
  int64_t moved_bytes = 0;
  while (moved_bytes < to.size_bytes) {
    const int64_t missing_bytes = to.size_bytes - moved_bytes;
    auto from = sources.smallest_at_least(missing_bytes);
    if (!from) from = sources.largest();
    if (!from) break;
    from->size_bytes = std::min(from->size_bytes, missing_bytes);
    if (!move_free_pages(*from, to.begin_bytes + moved_bytes)) break;
    moved_bytes += from->size_bytes;
  }
  return moved_bytes;
}

// Does not add the pages at their new place to the free set. After a failure all pages are free,
// wherever they are.
bool PagePool::move_free_pages(ByteRange from, int64_t to_bytes) {
  ByteRange moved{to_bytes, 0};
  while (moved.size_bytes < from.size_bytes) {
    const ByteRange rest{from.begin_bytes + moved.size_bytes, from.size_bytes - moved.size_bytes};
    const int64_t fragment_bytes = move_fragment(rest, moved.end_bytes());
    if (fragment_bytes == 0) break;
    moved.size_bytes += fragment_bytes;
  }
  if (moved.size_bytes == from.size_bytes) return true;
  if (moved.size_bytes > 0) free_.insert(moved);
  return false;
}

// Moves as much as one call can. Returns the number of bytes that moved, from the front.
int64_t PagePool::move_fragment(ByteRange from, int64_t to_bytes) {
  if (mapping_count() >= options_.mapping_limit) return 0;
  if (is_patchwork(from)) {
    if (!space_->replace(from, to_bytes)) return 0;
  } else {
    from.size_bytes = space_->move({from.begin_bytes, bytes_to_boundary(from)}, to_bytes);
  }
  if (from.size_bytes == 0) return 0;
  free_.erase(from);
  uncommitted_.erase({to_bytes, from.size_bytes});
  boundaries_.insert(to_bytes);
  boundaries_.insert(to_bytes + from.size_bytes);
  leave_uncommitted(from);
  return from.size_bytes;
}

// Whether moving the range's fragments takes longer than touching new pages.
bool PagePool::is_patchwork(ByteRange range) const {
  const int64_t most_boundaries = range.size_bytes / kFragmentBytes;
  return count_boundaries(range, most_boundaries + 1) > most_boundaries;
}

// Counts boundaries within the range, not at its ends, up to `limit`.
int64_t PagePool::count_boundaries(ByteRange range, int64_t limit) const {
  int64_t count = 0;
  for (auto boundary = boundaries_.upper_bound(range.begin_bytes);
       boundary != boundaries_.end() && *boundary < range.end_bytes() && count < limit; ++boundary)
    ++count;
  return count;
}

int64_t PagePool::bytes_to_boundary(ByteRange range) const {
  auto boundary = boundaries_.upper_bound(range.begin_bytes);
  if (boundary == boundaries_.end()) return range.size_bytes;
  return std::min(*boundary - range.begin_bytes, range.size_bytes);
}

// Uncommitted addresses have no pages and hence no mapping boundaries.
void PagePool::leave_uncommitted(ByteRange range) {
  const ByteRange merged = uncommitted_.insert(range);
  boundaries_.erase(boundaries_.upper_bound(merged.begin_bytes),
                    boundaries_.lower_bound(merged.end_bytes()));
}

// Starts at the frontier and goes on with the largest ranges, which adds few mappings.
void PagePool::trim(int64_t size_bytes) {
  const int64_t page_bytes = space_->page_bytes();
  const RangeSet& pages = loose_pages();
  int64_t left_bytes = align_up(std::min(size_bytes, pages.total_bytes()), page_bytes);
  while (left_bytes > 0) {
    const ByteRange tail_range = tail(pages, page_bytes).range;
    const ByteRange range = tail_range.size_bytes > 0 ? tail_range : *pages.largest();
    const int64_t part_bytes = std::min(left_bytes, range.size_bytes);
    const ByteRange part{range.end_bytes() - part_bytes, part_bytes};
    if (!give_back(part)) return;
    left_bytes -= part_bytes;
  }
}

int64_t PagePool::largest_bytes(int64_t growth_limit_bytes) const {
  const Tail tail = this->tail(free_.granules(), free_.granule_bytes());
  const int64_t growth_bytes =
      std::clamp<int64_t>(growth_limit_bytes, 0, tail.room_bytes) & -free_.granule_bytes();
  return std::max(free_.pages().largest_bytes(), tail.range.size_bytes + growth_bytes);
}

int64_t PagePool::shortage_bytes(int64_t size_bytes, int64_t growth_limit_bytes) const {
  const int64_t growth_bytes = whole_granules(std::max<int64_t>(growth_limit_bytes, 0));
  const int64_t supply_bytes = free_.granules().total_bytes() + growth_bytes;
  return std::max<int64_t>(best_place(size_bytes).used_bytes - supply_bytes, 0);
}

// An upper bound: the pages between two boundaries are one mapping, and so are adjacent uncommitted
// addresses.
int64_t PagePool::mapping_count() const { return boundaries_.size() + 2 * uncommitted_.count(); }

}  // namespace teraio::device
