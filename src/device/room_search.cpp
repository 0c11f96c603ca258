#include "device/room_search.h"

#include <algorithm>
#include <optional>

namespace teraio::device {
namespace {

// Windows that are tried, those with the fewest bytes to move first.
constexpr size_t kWindowsTried = 32;

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

 private:
  template <typename BeginOf>
  void add_windows(int64_t most_bytes, BeginOf begin_of, std::vector<Window>& windows) const;

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

}  // namespace

std::vector<BlockMove> find_moves(std::span<const ArenaBlock> blocks, const Gaps& gaps,
                                  int64_t size_bytes, int64_t most_bytes) {
  if (gaps.total_bytes() < size_bytes) return {};
  const RoomSearch search(blocks, gaps, size_bytes);
  for (const Window& window : search.windows(most_bytes))
    if (std::vector<BlockMove> moves = search.clear(window); !moves.empty()) return moves;
  return {};
}

}  // namespace teraio::device
