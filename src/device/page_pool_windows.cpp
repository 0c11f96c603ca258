// Blocks of known occasions, which lie where they have lain before.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "device/page_pool.h"

namespace teraio::device {
namespace {

// Of ranges that are in no order, those that follow each other become one.
void append(ByteRange range, std::vector<ByteRange>& ranges) {
  if (!ranges.empty() && ranges.back().end_bytes() == range.begin_bytes)
    ranges.back().size_bytes += range.size_bytes;
  else
    ranges.push_back(range);
}

bool is_moving(int64_t page, const std::vector<PageMove>& moves) {
  return std::ranges::find(moves, page, &PageMove::from_bytes) != moves.end();
}

}  // namespace

std::byte* PagePool::allocate_on(const Occasion& occasion, int64_t size_bytes,
                                 int64_t growth_limit_bytes) {
  if (!windows_) return nullptr;
  windows_->begin(occasion);
  std::optional<ByteRange> block = windows_->last_block(occasion, size_bytes);
  if (!block || !can_return(*block)) block = new_place(size_bytes);
  if (!block || !fill(*block, growth_limit_bytes)) return nullptr;
  windows_->note(occasion, *block);
  return take(*block, size_bytes);
}

bool PagePool::is_vacant(ByteRange range) const {
  int64_t vacant_bytes = 0;
  const auto count = [&](ByteRange part) { vacant_bytes += part.size_bytes; };
  free_.pages().for_each_in(range, count);
  (is_in_windows(range.begin_bytes) ? closed_ : uncommitted_).for_each_in(range, count);
  return vacant_bytes == range.size_bytes;
}

bool PagePool::is_page_free(int64_t offset_bytes) const {
  return offset_bytes >= 0 && free_.granules().contains({offset_bytes, space_->page_bytes()});
}

// A part of a page comes back only with its page: another page has room for it elsewhere.
bool PagePool::can_return(ByteRange block) const {
  if (!is_vacant(block)) return false;
  if (block.size_bytes >= space_->page_bytes() || free_.pages().contains(block)) return true;
  return is_page_free(space_->page_left_at(block.begin_bytes & -space_->page_bytes()));
}

// Parts of pages lie beside others if they can.
std::optional<ByteRange> PagePool::new_place(int64_t size_bytes) {
  if (size_bytes < space_->page_bytes())
    if (const auto fragment = free_.fragments().smallest_at_least(size_bytes))
      return ByteRange{fragment->begin_bytes, size_bytes};
  return windows_->open(size_bytes, [this](ByteRange window) { return is_vacant(window); });
}

// Commits all pages of the block, new ones first. Returns false if there are too few or the system
// refuses; pages that have moved are free where they are then.
bool PagePool::fill(ByteRange block, int64_t growth_limit_bytes) {
  const int64_t page_bytes = space_->page_bytes();
  std::vector<ByteRange> here;
  std::vector<int64_t> missing;
  for (int64_t page = block.begin_bytes & -page_bytes; page < block.end_bytes();
       page += page_bytes) {
    if (is_page_free(page)) {
      append({page, page_bytes}, here);
    } else if (uncommitted_at(page).contains({page, page_bytes})) {
      missing.push_back(page);
    }
  }
  if (missing.empty()) return true;
  for (const ByteRange pages : here) free_.erase(pages);  // they are no sources for others
  const bool is_filled = commit_pages(missing, growth_limit_bytes, here);
  for (const ByteRange pages : here) free_.insert(pages);
  return is_filled;
}

// Adds the pages that are committed then to `here`, not to the free ones.
bool PagePool::commit_pages(std::span<const int64_t> missing, int64_t growth_limit_bytes,
                            std::vector<ByteRange>& here) {
  const int64_t page_bytes = space_->page_bytes();
  const int64_t missing_bytes = static_cast<int64_t>(missing.size()) * page_bytes;
  int64_t growth_left_bytes = std::max<int64_t>(growth_limit_bytes, 0) & -page_bytes;
  if (missing_bytes > free_.granules().total_bytes() + growth_left_bytes) return false;
  std::vector<PageMove> moves;
  std::vector<int64_t> strange;  // for which any page will do
  for (const int64_t page : missing) {
    const int64_t left_bytes = space_->page_left_at(page);
    // A page may be mapped twice in a window that was not filled.
    if (is_page_free(left_bytes) && !is_moving(left_bytes, moves)) {
      moves.push_back({left_bytes, page});
    } else if (growth_left_bytes == 0) {
      strange.push_back(page);
    } else if (grow_at({page, page_bytes}, growth_left_bytes) > 0) {
      append({page, page_bytes}, here);
    } else {
      return false;
    }
  }
  if (!strange.empty()) add_moves(strange, moves);
  const size_t move_count = space_->move_pages(moves);
  for (size_t i = 0; i < move_count;) {
    const PageMove first = moves[i];
    int64_t size_bytes = page_bytes;
    while (++i < move_count && moves[i].from_bytes == first.from_bytes + size_bytes &&
           moves[i].to_bytes == first.to_bytes + size_bytes)
      size_bytes += page_bytes;
    free_.erase({first.from_bytes, size_bytes});
    uncommitted_at(first.to_bytes).erase({first.to_bytes, size_bytes});
    leave_uncommitted({first.from_bytes, size_bytes});
    append({first.to_bytes, size_bytes}, here);
  }
  stitch_count_ += strange.empty() ? 0 : 1;
  moved_page_count_ += std::ssize(strange);
  return move_count == moves.size();
}

// Takes the free pages that are wanted last.
void PagePool::add_moves(std::span<const int64_t> to, std::vector<PageMove>& moves) const {
  const int64_t page_bytes = space_->page_bytes();
  std::vector<std::pair<int64_t, int64_t>> sources;  // wanted in, begin
  free_.granules().for_each_in({0, space_->size_bytes()}, [&](ByteRange range) {
    for (int64_t page = range.begin_bytes; page < range.end_bytes(); page += page_bytes)
      if (!is_moving(page, moves))
        sources.emplace_back(-windows_->moments_until_wanted(page, space_->former_offsets(page)),
                             page);
  });
  std::ranges::partial_sort(sources, sources.begin() + std::ssize(to));
  for (size_t i = 0; i < to.size(); ++i) moves.push_back({sources[i].second, to[i]});
}

}  // namespace teraio::device
