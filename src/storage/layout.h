// Layout: the places of a plan's copies on the drives.
//
// Copies that are on the tier at different times may share bytes; copies that are there at the same
// time never do. In order of time, every copy gets bytes that are free then, striped and best
// fitting like any extent:
//
//   time   0     10    20    30
//   A      [--------]                    drive  | A, later C | B         |
//   B          [---------------]
//   C               [----------]
//
// A run can deviate from the plan. Therefore take() and give_back() check and mark the bytes at run
// time. The borders of copies divide the drives into ranges, and each range has one flag, so no
// search is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "storage/striping.h"
#include "storage/tier_store.h"

namespace teraio::storage {

// The bytes that an extent of this size occupies: whole blocks, at least one.
int64_t room_bytes_of(int64_t size_bytes);

// The most bytes that these copies occupy at any time.
int64_t peak_room_bytes(std::span<const PlannedCopy> copies);

// The constructor is a pure function of its arguments. Threads: one at a time.
class Layout {
 public:
  Layout() = default;  // without copies
  // Places the copies in the free bytes of `striping`. Requires peak_room_bytes(copies) <=
  // striping.free_bytes().
  Layout(Striping striping, std::span<const PlannedCopy> copies);

  size_t copy_count() const { return places_.size(); }
  // In the order of the copy's bytes.
  const std::vector<Piece>& pieces(size_t copy) const { return places_[copy].pieces; }
  // Every byte that some copy uses, once. The extent offsets have no meaning.
  const std::vector<Piece>& room() const { return room_; }
  int64_t room_bytes() const { return room_bytes_; }

  // Marks the copy's bytes as taken. Returns false, without a change, if any of them is taken.
  bool take(size_t copy);
  // Frees the bytes of a copy that was taken.
  void give_back(size_t copy);

 private:
  struct FlagRange {
    size_t begin = 0;
    size_t end = 0;
  };
  struct Place {
    std::vector<Piece> pieces;
    std::vector<FlagRange> flags;
  };

  void place(Striping striping, std::span<const PlannedCopy> copies);
  void divide();

  std::vector<Place> places_;
  std::vector<Piece> room_;
  int64_t room_bytes_ = 0;
  std::vector<char> is_taken_;  // by range between borders
};

}  // namespace teraio::storage
