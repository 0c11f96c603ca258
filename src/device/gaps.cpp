#include "device/gaps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace teraio::device {
namespace {

// The rest of a gap counts less than the times at which its neighbours leave.
constexpr double kRestWeight = .005;
constexpr double kExactFit = .1;

// In iterations, at most one.
double time_between(double a, double b) { return a == b ? 0 : std::min(1.0, std::abs(a - b)); }

}  // namespace

std::optional<int64_t> Gaps::place_for(int64_t size_bytes, double leaves_at) const {
  std::optional<int64_t> best;
  double least_cost = std::numeric_limits<double>::max();
  for (const Gap& gap : gaps_) {
    const int64_t rest_bytes = gap.size_bytes() - size_bytes;
    if (rest_bytes < 0) continue;
    const double rest =
        std::min(1.0, static_cast<double>(rest_bytes) / static_cast<double>(size_bytes));
    const double below = time_between(leaves_at, gap.below_leaves_at);
    const double above = time_between(leaves_at, gap.above_leaves_at);
    const double cost =
        (std::min(below, above) + kRestWeight * rest) * (rest_bytes == 0 ? kExactFit : 1);
    if (cost >= least_cost) continue;
    least_cost = cost;
    best = below <= above ? gap.begin_bytes : gap.end_bytes - size_bytes;
  }
  return best;
}

std::vector<Gap>::const_iterator Gaps::first_ending_after(int64_t offset_bytes) const {
  return std::ranges::upper_bound(gaps_, offset_bytes, {}, &Gap::end_bytes);
}

void Gaps::insert(ByteRange range, double below_leaves_at, double above_leaves_at) {
  total_bytes_ += range.size_bytes;
  auto next = gaps_.begin() + (first_ending_after(range.begin_bytes) - gaps_.begin());
  TERAIO_CHECK(next == gaps_.end() || next->begin_bytes >= range.end_bytes());
  Gap merged{range.begin_bytes, range.end_bytes(), below_leaves_at, above_leaves_at};
  if (next != gaps_.end() && next->begin_bytes == merged.end_bytes) {
    merged.end_bytes = next->end_bytes;
    merged.above_leaves_at = next->above_leaves_at;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin() && std::prev(next)->end_bytes == merged.begin_bytes) {
    Gap& before = *std::prev(next);
    before.end_bytes = merged.end_bytes;
    before.above_leaves_at = merged.above_leaves_at;
    return;
  }
  gaps_.insert(next, merged);
}

void Gaps::erase(ByteRange range, double leaves_at) {
  total_bytes_ -= range.size_bytes;
  const auto gap = gaps_.begin() + (first_ending_after(range.begin_bytes) - gaps_.begin());
  TERAIO_CHECK(gap != gaps_.end() && gap->begin_bytes <= range.begin_bytes &&
               range.end_bytes() <= gap->end_bytes);
  Gap above{range.end_bytes(), gap->end_bytes, leaves_at, gap->above_leaves_at};
  gap->end_bytes = range.begin_bytes;
  gap->above_leaves_at = leaves_at;
  if (gap->size_bytes() == 0 && above.size_bytes() == 0)
    gaps_.erase(gap);
  else if (gap->size_bytes() == 0)
    *gap = above;
  else if (above.size_bytes() > 0)
    gaps_.insert(gap + 1, above);
}

void Gaps::note_leaves_at(ByteRange range, double leaves_at) {
  const auto above = gaps_.begin() + (first_ending_after(range.begin_bytes) - gaps_.begin());
  if (above != gaps_.end() && above->begin_bytes == range.end_bytes())
    above->below_leaves_at = leaves_at;
  if (above != gaps_.begin() && std::prev(above)->end_bytes == range.begin_bytes)
    std::prev(above)->above_leaves_at = leaves_at;
}

void Gaps::cut(ByteRange range) {
  while (true) {
    const auto gap = first_ending_after(range.begin_bytes);
    if (gap == gaps_.end() || gap->begin_bytes >= range.end_bytes()) return;
    const int64_t begin_bytes = std::max(gap->begin_bytes, range.begin_bytes);
    const int64_t end_bytes = std::min(gap->end_bytes, range.end_bytes());
    erase({begin_bytes, end_bytes - begin_bytes}, gap->below_leaves_at);
  }
}

int64_t Gaps::largest_bytes() const {
  int64_t largest_bytes = 0;
  for (const Gap& gap : gaps_) largest_bytes = std::max(largest_bytes, gap.size_bytes());
  return largest_bytes;
}

int64_t Gaps::bytes_ending_at(int64_t offset_bytes) const {
  const auto gap = std::ranges::lower_bound(gaps_, offset_bytes, {}, &Gap::end_bytes);
  return gap != gaps_.end() && gap->end_bytes == offset_bytes ? gap->size_bytes() : 0;
}

int64_t Gaps::bytes_starting_at(int64_t offset_bytes) const {
  const auto gap = first_ending_after(offset_bytes);
  return gap != gaps_.end() && gap->begin_bytes == offset_bytes ? gap->size_bytes() : 0;
}

}  // namespace teraio::device
