#include "device/room_search.h"

#include <algorithm>
#include <optional>

namespace teraio::device {
namespace {

// Windows that are tried, those with the fewest bytes to move first.
constexpr size_t kWindowsTried = 32;

// Copies of which a slide may consist, each as long as the block slides.
constexpr int64_t kCopiesPerSlide = 64;

// The blocks from `first` to before `last` lie in it.
struct Window {
  int64_t begin_bytes = 0;
  size_t first = 0;
  size_t last = 0;
  int64_t moved_bytes = 0;
};

class RoomSearch {
 public:
  RoomSearch(std::span<const ArenaBlock> blocks, const Gaps& gaps, int64_t size_bytes)
      : blocks_(blocks), gaps_(gaps), size_bytes_(size_bytes) {}

  // Those of at most `most_bytes`, the cheapest first.
  std::vector<Window> windows(int64_t most_bytes) const;
  // Moves the blocks of the window, large ones first. Empty: not all find a place.
  std::vector<BlockMove> clear(const Window& window) const;
  // Slides blocks down, as few bytes as possible. Empty: it takes more than `most_bytes`.
  std::vector<BlockMove> slide(int64_t most_bytes) const;

 private:
  bool may_slide(size_t block, int64_t down_bytes) const {
    return blocks_[block].may_move &&
           blocks_[block].range.size_bytes <= kCopiesPerSlide * down_bytes;
  }
  template <typename BeginOf>
  void add_windows(int64_t most_bytes, BeginOf begin_of, std::vector<Window>& windows) const;
  int64_t end_before(size_t block) const {
    return block == 0 ? 0 : blocks_[block - 1].range.end_bytes();
  }
  int64_t free_before(size_t block) const {
    return blocks_[block].range.begin_bytes - end_before(block);
  }

  std::span<const ArenaBlock> blocks_;
  const Gaps& gaps_;
  const int64_t size_bytes_;
};

// Slides a window over the blocks. `begin_of(i)` grows with i.
template <typename BeginOf>
void RoomSearch::add_windows(int64_t most_bytes, BeginOf begin_of,
                             std::vector<Window>& windows) const {
  Window window;
  size_t fixed_count = 0;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    window.begin_bytes = begin_of(i);
    const int64_t end_bytes = window.begin_bytes + size_bytes_;
    for (; window.last < blocks_.size() && blocks_[window.last].range.begin_bytes < end_bytes;
         ++window.last) {
      fixed_count += blocks_[window.last].may_move ? 0 : 1;
      window.moved_bytes += blocks_[window.last].range.size_bytes;
    }
    for (; window.first < window.last &&
           blocks_[window.first].range.end_bytes() <= window.begin_bytes;
         ++window.first) {
      fixed_count -= blocks_[window.first].may_move ? 0 : 1;
      window.moved_bytes -= blocks_[window.first].range.size_bytes;
    }
    if (window.begin_bytes >= 0 && fixed_count == 0 && window.moved_bytes <= most_bytes)
      windows.push_back(window);
  }
}

// The cheapest window begins where a block ends, or ends where one begins.
std::vector<Window> RoomSearch::windows(int64_t most_bytes) const {
  std::vector<Window> windows;
  add_windows(
      most_bytes, [this](size_t i) { return blocks_[i].range.end_bytes(); }, windows);
  add_windows(
      most_bytes, [this](size_t i) { return blocks_[i].range.begin_bytes - size_bytes_; }, windows);
  const auto is_cheaper = [](const Window& a, const Window& b) {
    return a.moved_bytes < b.moved_bytes;
  };
  const size_t count = std::min(windows.size(), kWindowsTried);
  std::partial_sort(windows.begin(), windows.begin() + static_cast<std::ptrdiff_t>(count),
                    windows.end(), is_cheaper);
  windows.resize(count);
  return windows;
}

std::vector<BlockMove> RoomSearch::clear(const Window& window) const {
  Gaps gaps = gaps_;
  gaps.cut({window.begin_bytes, size_bytes_});
  std::vector<ArenaBlock> leaving(blocks_.begin() + static_cast<std::ptrdiff_t>(window.first),
                                  blocks_.begin() + static_cast<std::ptrdiff_t>(window.last));
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
std::vector<BlockMove> RoomSearch::slide(int64_t most_bytes) const {
  std::optional<Window> best;
  Window window;
  int64_t free_bytes = 0;
  for (; window.last < blocks_.size(); ++window.last) {
    free_bytes += free_before(window.last);
    while (window.first < window.last && free_bytes - free_before(window.first) >= size_bytes_) {
      free_bytes -= free_before(window.first);
      window.moved_bytes -= blocks_[window.first++].range.size_bytes;
    }
    if (free_bytes >= size_bytes_ && window.moved_bytes <= most_bytes &&
        (!best || window.moved_bytes < best->moved_bytes))
      best = window;
    window.moved_bytes += blocks_[window.last].range.size_bytes;
    if (!may_slide(window.last, free_bytes)) {
      free_bytes = window.moved_bytes = 0;
      window.first = window.last + 1;
    }
  }
  if (!best) return {};
  std::vector<BlockMove> moves;
  int64_t to_bytes = end_before(best->first);
  for (size_t i = best->first; i < best->last; to_bytes += blocks_[i++].range.size_bytes) {
    if (!may_slide(i, blocks_[i].range.begin_bytes - to_bytes)) return {};
    moves.push_back({blocks_[i].range, to_bytes});
  }
  return moves;
}

int64_t moved_bytes(const std::vector<BlockMove>& moves) {
  int64_t bytes = 0;
  for (const BlockMove& move : moves) bytes += move.from.size_bytes;
  return bytes;
}

}  // namespace

std::vector<BlockMove> find_moves(std::span<const ArenaBlock> blocks, const Gaps& gaps,
                                  int64_t size_bytes, int64_t most_bytes) {
  if (gaps.total_bytes() < size_bytes) return {};
  const RoomSearch search(blocks, gaps, size_bytes);
  std::vector<BlockMove> best = search.slide(most_bytes);
  for (const Window& window : search.windows(best.empty() ? most_bytes : moved_bytes(best)))
    if (std::vector<BlockMove> moves = search.clear(window); !moves.empty()) return moves;
  return best;
}

}  // namespace teraio::device
