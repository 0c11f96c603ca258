// Layout: where the copies of a plan lie on the drives.
//
// Copies that are on the tier at different times may share bytes; those that are there at once
// never do. In the order of time every copy gets room as any extent does, striped and best fitting,
// from what is free then:
//
//   time   0     10    20    30
//   A      [--------]                    drive  | A, later C | B         |
//   B          [---------------]
//   C               [----------]
//
// What is planned and what happens can differ, so that bytes are taken and given back at run time:
// a flag per range between the borders of copies, without a search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "storage/striping.h"
#include "storage/tier_store.h"

namespace teraio::storage {

// What an extent of that size takes: whole blocks, one at least.
int64_t room_bytes_of(int64_t size_bytes);

// The most that these copies take at any time.
int64_t peak_room_bytes(std::span<const PlannedCopy> copies);

// A pure function of its arguments. Not thread-safe.
class Layout {
 public:
  Layout() = default;  // of nothing
  // On what is free in `striping`. Requires peak_room_bytes(copies) <= striping.free_bytes().
  Layout(Striping striping, std::span<const PlannedCopy> copies);

  size_t copy_count() const { return places_.size(); }
  // In the order of the copy's bytes.
  const std::vector<Piece>& pieces(size_t copy) const { return places_[copy].pieces; }
  // Every byte of any copy once; extent offsets mean nothing.
  const std::vector<Piece>& room() const { return room_; }
  int64_t room_bytes() const { return room_bytes_; }

  // False: a byte of it is taken.
  bool take(size_t copy);
  // It was taken, and not given back.
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
