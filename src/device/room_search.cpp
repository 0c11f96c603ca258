#include "device/room_search.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace teraio::device {
namespace {

// Regions that are tried, those with the fewest bytes to move first.
constexpr size_t kRegionsTried = 32;

// Copies of which a slide may consist, each as long as the block slides.
constexpr int64_t kCopiesPerSlide = 64;

// The blocks from `first` to before `last` lie in it.
struct Region {
  int64_t begin_bytes = 0;
  size_t first = 0;
  size_t last = 0;
  int64_t moved_bytes = 0;
};

std::vector<Region> cheapest(std::vector<Region> regions) {
  const size_t count = std::min(regions.size(), kRegionsTried);
  std::ranges::partial_sort(regions, regions.begin() + static_cast<std::ptrdiff_t>(count), {},
                            &Region::moved_bytes);
  regions.resize(count);
  return regions;
}

class RoomSearch {
 public:
  RoomSearch(std::span<const ArenaBlock> blocks, const Gaps& gaps, int64_t size_bytes)
      : blocks_(blocks), gaps_(gaps), size_bytes_(size_bytes) {}

  // Those of at most `most_bytes`, the cheapest first.
  std::vector<Region> regions(int64_t most_bytes) const;
  // Moves the blocks of the region, large ones first. Empty: not all find a place.
  std::vector<BlockMove> clear(const Region& region) const;
  // Slides blocks down, as few bytes as possible. Empty: it takes more than `most_bytes`.
  std::vector<BlockMove> slide_within(int64_t most_bytes) const;
  // Both: blocks between two that stay move elsewhere, until what is left there can slide.
  std::vector<BlockMove> clear_and_slide(int64_t most_bytes) const;

 private:
  // Blocks that may move, between two that may not.
  struct Stretch {
    size_t first = 0;
    size_t last = 0;
    ByteRange range;
    int64_t missing_bytes = 0;  // that must leave it
  };
  bool may_slide(size_t block, int64_t down_bytes) const {
    return blocks_[block].may_move &&
           blocks_[block].range.size_bytes <= kCopiesPerSlide * down_bytes;
  }
  template <typename BeginOf>
  void add_regions(int64_t most_bytes, BeginOf begin_of, std::vector<Region>& regions) const;
  int64_t end_before(size_t block) const {
    return block == 0 ? 0 : blocks_[block - 1].range.end_bytes();
  }
  int64_t free_before(size_t block) const {
    return blocks_[block].range.begin_bytes - end_before(block);
  }

  // Regions whose blocks may slide, if each of them slides far enough.
  std::vector<Region> slides(int64_t most_bytes) const;
  std::vector<BlockMove> slide(const Region& region) const;
  std::vector<Stretch> stretches() const;
  std::vector<BlockMove> clear_part(const Stretch& stretch) const;
  std::vector<ArenaBlock> after(std::span<const BlockMove> moves) const;

  std::span<const ArenaBlock> blocks_;
  const Gaps& gaps_;
  const int64_t size_bytes_;
};

// Slides a region over the blocks. `begin_of(i)` grows with i.
template <typename BeginOf>
void RoomSearch::add_regions(int64_t most_bytes, BeginOf begin_of,
                             std::vector<Region>& regions) const {
  Region region;
  size_t fixed_count = 0;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    region.begin_bytes = begin_of(i);
    const int64_t end_bytes = region.begin_bytes + size_bytes_;
    for (; region.last < blocks_.size() && blocks_[region.last].range.begin_bytes < end_bytes;
         ++region.last) {
      fixed_count += blocks_[region.last].may_move ? 0 : 1;
      region.moved_bytes += blocks_[region.last].range.size_bytes;
    }
    for (; region.first < region.last &&
           blocks_[region.first].range.end_bytes() <= region.begin_bytes;
         ++region.first) {
      fixed_count -= blocks_[region.first].may_move ? 0 : 1;
      region.moved_bytes -= blocks_[region.first].range.size_bytes;
    }
    if (region.begin_bytes >= 0 && fixed_count == 0 && region.moved_bytes <= most_bytes)
      regions.push_back(region);
  }
}

// The cheapest region begins where a block ends, or ends where one begins.
std::vector<Region> RoomSearch::regions(int64_t most_bytes) const {
  std::vector<Region> regions;
  add_regions(
      most_bytes, [this](size_t i) { return blocks_[i].range.end_bytes(); }, regions);
  add_regions(
      most_bytes, [this](size_t i) { return blocks_[i].range.begin_bytes - size_bytes_; }, regions);
  return cheapest(std::move(regions));
}

std::vector<BlockMove> RoomSearch::clear(const Region& region) const {
  Gaps gaps = gaps_;
  gaps.cut({region.begin_bytes, size_bytes_});
  std::vector<ArenaBlock> leaving(blocks_.begin() + static_cast<std::ptrdiff_t>(region.first),
                                  blocks_.begin() + static_cast<std::ptrdiff_t>(region.last));
  std::ranges::stable_sort(leaving, std::greater(),
                           [](const ArenaBlock& block) { return block.range.size_bytes; });
  std::vector<BlockMove> moves;
  for (const ArenaBlock& block : leaving) {
    const std::optional<int64_t> place = gaps.place_for(block.range.size_bytes, block.leaves_at);
    if (!place) return {};
    gaps.erase({*place, block.range.size_bytes}, block.leaves_at);
    moves.push_back({block.range, *place});
  }
  return moves;
}

// The free bytes before the blocks `first` to `last`, which is not moved, are enough.
std::vector<Region> RoomSearch::slides(int64_t most_bytes) const {
  std::vector<Region> slides;
  Region region;
  int64_t free_bytes = 0;
  for (; region.last < blocks_.size(); ++region.last) {
    free_bytes += free_before(region.last);
    while (region.first < region.last && free_bytes - free_before(region.first) >= size_bytes_) {
      free_bytes -= free_before(region.first);
      region.moved_bytes -= blocks_[region.first++].range.size_bytes;
    }
    if (free_bytes >= size_bytes_ && region.moved_bytes <= most_bytes) slides.push_back(region);
    region.moved_bytes += blocks_[region.last].range.size_bytes;
    if (!may_slide(region.last, free_bytes)) {
      free_bytes = region.moved_bytes = 0;
      region.first = region.last + 1;
    }
  }
  return slides;
}

std::vector<BlockMove> RoomSearch::slide(const Region& region) const {
  std::vector<BlockMove> moves;
  int64_t to_bytes = end_before(region.first);
  for (size_t i = region.first; i < region.last; to_bytes += blocks_[i++].range.size_bytes) {
    if (!may_slide(i, blocks_[i].range.begin_bytes - to_bytes)) return {};
    moves.push_back({blocks_[i].range, to_bytes});
  }
  return moves;
}

std::vector<BlockMove> RoomSearch::slide_within(int64_t most_bytes) const {
  for (const Region& region : cheapest(slides(most_bytes)))
    if (std::vector<BlockMove> moves = slide(region); !moves.empty()) return moves;
  return {};
}

int64_t moved_bytes(const std::vector<BlockMove>& moves) {
  int64_t bytes = 0;
  for (const BlockMove& move : moves) bytes += move.from.size_bytes;
  return bytes;
}

// Those that hold the block, the one from which least must leave first.
std::vector<RoomSearch::Stretch> RoomSearch::stretches() const {
  std::vector<Stretch> stretches;
  Stretch next;
  next.missing_bytes = size_bytes_;
  for (; next.last < blocks_.size(); ++next.last) {
    next.missing_bytes -= free_before(next.last);
    if (blocks_[next.last].may_move) continue;
    const int64_t begin_bytes = end_before(next.first);
    next.range = {begin_bytes, blocks_[next.last].range.begin_bytes - begin_bytes};
    if (next.range.size_bytes >= size_bytes_) stretches.push_back(next);
    next.first = next.last + 1;
    next.missing_bytes = size_bytes_;
  }
  std::ranges::sort(stretches, {}, &Stretch::missing_bytes);
  return stretches;
}

// Moves the smallest block that is enough, or else large ones, into gaps elsewhere.
std::vector<BlockMove> RoomSearch::clear_part(const Stretch& stretch) const {
  Gaps gaps = gaps_;
  gaps.cut(stretch.range);
  std::vector<ArenaBlock> leaving(blocks_.begin() + static_cast<std::ptrdiff_t>(stretch.first),
                                  blocks_.begin() + static_cast<std::ptrdiff_t>(stretch.last));
  std::ranges::stable_sort(leaving, {},
                           [](const ArenaBlock& block) { return block.range.size_bytes; });
  std::vector<BlockMove> moves;
  for (int64_t missing_bytes = stretch.missing_bytes; missing_bytes > 0;) {
    if (leaving.empty()) return {};
    auto block = std::ranges::lower_bound(
        leaving, missing_bytes, {}, [](const ArenaBlock& each) { return each.range.size_bytes; });
    if (block == leaving.end()) --block;
    const ByteRange from = block->range;
    const double leaves_at = block->leaves_at;
    leaving.erase(block);
    const std::optional<int64_t> place = gaps.place_for(from.size_bytes, leaves_at);
    if (!place) continue;
    gaps.erase({*place, from.size_bytes}, leaves_at);
    moves.push_back({from, *place});
    missing_bytes -= from.size_bytes;
  }
  return moves;
}

// The blocks when these have moved, which then stay.
std::vector<ArenaBlock> RoomSearch::after(std::span<const BlockMove> moves) const {
  std::vector<ArenaBlock> blocks(blocks_.begin(), blocks_.end());
  for (const BlockMove& move : moves) {
    ArenaBlock& block =
        *std::ranges::find(blocks, move.from.begin_bytes,
                           [](const ArenaBlock& each) { return each.range.begin_bytes; });
    block.range.begin_bytes = move.to_bytes;
    block.may_move = false;
  }
  std::ranges::sort(blocks, {}, [](const ArenaBlock& block) { return block.range.begin_bytes; });
  return blocks;
}

std::vector<BlockMove> RoomSearch::clear_and_slide(int64_t most_bytes) const {
  for (const Stretch& stretch : stretches()) {
    std::vector<BlockMove> moves = clear_part(stretch);
    const std::vector<ArenaBlock> blocks = after(moves);
    const auto slides =
        RoomSearch(blocks, gaps_, size_bytes_).slide_within(most_bytes - moved_bytes(moves));
    if (moves.empty() || slides.empty()) continue;
    moves.insert(moves.end(), slides.begin(), slides.end());
    return moves;
  }
  return {};
}

}  // namespace

std::vector<BlockMove> find_moves(std::span<const ArenaBlock> blocks, const Gaps& gaps,
                                  int64_t size_bytes, int64_t most_bytes) {
  if (gaps.total_bytes() < size_bytes) return {};
  const RoomSearch search(blocks, gaps, size_bytes);
  std::vector<BlockMove> best = search.slide_within(most_bytes);
  for (const Region& region : search.regions(best.empty() ? most_bytes : moved_bytes(best)))
    if (std::vector<BlockMove> moves = search.clear(region); !moves.empty()) return moves;
  return best.empty() ? search.clear_and_slide(most_bytes) : best;
}

}  // namespace teraio::device
