#include "storage/layout.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "io/drive_io.h"

namespace teraio::storage {
namespace {

// A copy arrives on the tier or leaves it.
struct Change {
  int64_t time = 0;
  bool is_arrival = false;
  size_t copy = 0;
};

// In order of time. At the same time, departures come before arrivals.
std::vector<Change> changes_of(std::span<const PlannedCopy> copies) {
  std::vector<Change> changes;
  for (size_t i = 0; i < copies.size(); ++i) {
    TERAIO_CHECK(copies[i].begin < copies[i].end);
    changes.push_back({copies[i].begin, true, i});
    changes.push_back({copies[i].end, false, i});
  }
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::pair(a.time, a.is_arrival) < std::pair(b.time, b.is_arrival);
  });
  return changes;
}

using Border = std::pair<int32_t, int64_t>;  // drive, offset

Border begin_of(const Piece& piece) { return {piece.drive, piece.drive_offset_bytes}; }
Border end_of(const Piece& piece) {
  return {piece.drive, piece.drive_offset_bytes + piece.size_bytes};
}

}  // namespace

int64_t room_bytes_of(int64_t size_bytes) {
  return std::max(io::kBlockBytes, align_up(size_bytes, io::kBlockBytes));
}

int64_t peak_room_bytes(std::span<const PlannedCopy> copies) {
  int64_t now_bytes = 0;
  int64_t peak_bytes = 0;
  for (const Change& change : changes_of(copies)) {
    const int64_t room_bytes = room_bytes_of(copies[change.copy].size_bytes);
    now_bytes += change.is_arrival ? room_bytes : -room_bytes;
    peak_bytes = std::max(peak_bytes, now_bytes);
  }
  return peak_bytes;
}

Layout::Layout(Striping striping, std::span<const PlannedCopy> copies) : places_(copies.size()) {
  place(std::move(striping), copies);
  divide();
}

void Layout::place(Striping striping, std::span<const PlannedCopy> copies) {
  for (const Change& change : changes_of(copies)) {
    std::vector<Piece>& pieces = places_[change.copy].pieces;
    if (!change.is_arrival) {
      striping.give_back(pieces);
      continue;
    }
    auto taken = striping.take(room_bytes_of(copies[change.copy].size_bytes));
    TERAIO_CHECK(taken.has_value());
    pieces = std::move(*taken);
  }
}

// All bytes between two consecutive borders belong to the same copies, or to none.
void Layout::divide() {
  std::vector<Border> borders;
  for (const Place& place : places_) {
    for (const Piece& piece : place.pieces) {
      borders.push_back(begin_of(piece));
      borders.push_back(end_of(piece));
    }
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  is_taken_.assign(borders.size(), 0);
  const auto index_of = [&](const Border& border) {
    return static_cast<size_t>(std::lower_bound(borders.begin(), borders.end(), border) -
                               borders.begin());
  };
  std::vector<char> is_used(borders.size(), 0);
  for (Place& place : places_) {
    for (const Piece& piece : place.pieces) {
      const FlagRange range{index_of(begin_of(piece)), index_of(end_of(piece))};
      place.flags.push_back(range);
      std::fill(is_used.begin() + range.begin, is_used.begin() + range.end, 1);
    }
  }
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    if (!is_used[i]) continue;
    const int64_t size_bytes = borders[i + 1].second - borders[i].second;
    room_.push_back({borders[i].first, borders[i].second, 0, size_bytes});
    room_bytes_ += size_bytes;
  }
}

bool Layout::take(size_t copy) {
  const std::vector<FlagRange>& flags = places_[copy].flags;
  for (const FlagRange& range : flags) {
    const auto end = is_taken_.begin() + range.end;
    if (std::find(is_taken_.begin() + range.begin, end, 1) != end) return false;
  }
  for (const FlagRange& range : flags)
    std::fill(is_taken_.begin() + range.begin, is_taken_.begin() + range.end, 1);
  return true;
}

void Layout::give_back(size_t copy) {
  for (const FlagRange& range : places_[copy].flags)
    std::fill(is_taken_.begin() + range.begin, is_taken_.begin() + range.end, 0);
}

}  // namespace teraio::storage
