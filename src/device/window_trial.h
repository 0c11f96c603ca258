// WindowTrial: whether windows (BlockWindows) are worth it, as far as allocations so far tell.
//
// They are where free memory is so scattered that pages move for many allocations, and iterations
// repeat so well that they stop to. The first iteration with windows maps every page of every
// block once; a few later, hardly any. Where blocks are released in another order each time, more
// pages are mapped than without windows, which are then given up for good.
//
// A value. Threads: one at a time.
#pragma once

#include <cstdint>

namespace teraio::device {

class WindowTrial {
 public:
  // All counts are of allocations since the pool was made, with and without windows, and of pages
  // that were mapped for them. `moment`: of the occasion for which a block is allocated.
  // Returns whether it is to get a window.
  bool is_on(int64_t moment, int64_t allocation_count, int64_t page_count);

 private:
  enum class State : uint8_t { kOff, kOn, kGivenUp };

  State state_ = State::kOff;
  int64_t allocation_count_ = 0;  // when this count began
  int64_t page_count_ = 0;
  double usual_pages_ = 0;  // per allocation, without windows
  int64_t moment_ = -1;
  int64_t worse_iterations_ = 0;  // in a row
};

}  // namespace teraio::device
