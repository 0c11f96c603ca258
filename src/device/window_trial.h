// WindowTrial: whether windows (BlockWindows) are worth it, as far as allocations so far tell.
//
// They are where free memory is so scattered that pages move for many allocations, and iterations
// repeat so well that they stop to. The first iteration with windows maps every page of every
// block once; a few later, hardly any. An iteration without windows tells what allocations take
// otherwise, in the time of the program. Where they take longer with windows for several
// iterations in a row, because blocks are released in another order each time, or because few
// pages moved before, windows are given up for good.
//
// A value. Threads: one at a time.
#pragma once

#include <cstdint>

namespace teraio::device {

// Of all allocations since a pool was made, with and without windows.
struct AllocationTotals {
  int64_t count = 0;
  int64_t page_count = 0;   // pages that moved, or were mapped in a window
  int64_t duration_ns = 0;  // of those that map pages or have windows, without waits for compute

  AllocationTotals operator-(const AllocationTotals& other) const {
    return {count - other.count, page_count - other.page_count, duration_ns - other.duration_ns};
  }
};

class WindowTrial {
 public:
  // `moment`: of the occasion for which a block is allocated. Returns whether it is to get a
  // window.
  bool is_on(int64_t moment, const AllocationTotals& totals);

 private:
  enum class State : uint8_t { kOff, kOn, kGivenUp };

  void judge(const AllocationTotals& iteration);

  State state_ = State::kOff;
  AllocationTotals begin_;  // of the iteration
  int64_t moment_ = -1;
  double usual_ns_ = 0;           // per allocation, without windows
  int64_t worse_iterations_ = 0;  // in a row
};

}  // namespace teraio::device
