// BlockWindows: addresses of their own for the blocks that every iteration allocates again.
//
// Iterations repeat, and so do their allocations: each one is an occasion. The first block of an
// occasion gets a window, a range of addresses, and later ones lie there again. A page that was in
// a window is still mapped there and comes back at no cost (AddressSpace::page_left_at()), if it is
// free by then:
//
//     windows        | A      | B   | C      |
//     mapped there   | 1 2 3  | 3 4 | 1 4 5  |     # numbers of pages
//     at present     | 1 2    | 3 4 |     5  |     # B is in use: A lacks 3, and C lacks 4
//
// Where a page that was there is not free, another one has to be mapped. It should be the one that
// other windows want last, as far as the iteration before tells. After a few iterations, windows
// lack hardly any page when their blocks are allocated.
//
// This class knows addresses and when they were wanted; the pool knows which pages are free.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/range_set.h"
#include "device/device.h"

namespace teraio::device {

class BlockWindows {
 public:
  // Windows consist of whole pages within `addresses`.
  BlockWindows(ByteRange addresses, int64_t page_bytes);

  // Wants are counted from this occasion on.
  void begin(const Occasion& occasion);

  // Where the last block of the occasion lay, if it had this size.
  std::optional<ByteRange> last_block(const Occasion& occasion, int64_t size_bytes) const;

  // Returns addresses for a block, for which `is_vacant` holds: fresh ones, or where there are none
  // left, those of the window that was used least recently. Empty if there is none. They stay fresh
  // until note(): where no block comes to lie there, others may take pages that do.
  std::optional<ByteRange> open(int64_t size_bytes,
                                const std::function<bool(ByteRange)>& is_vacant);

  // The block of the occasion that has begun lies there.
  void note(const Occasion& occasion, ByteRange block);

  // In how many moments one of these addresses is wanted, if the iteration is like the last one.
  int64_t moments_until_wanted(int64_t offset_bytes, std::span<const int64_t> others) const;

  // Whether windows lie at this address.
  bool contains(int64_t offset_bytes) const {
    return addresses_.begin_bytes <= offset_bytes && offset_bytes < addresses_.end_bytes();
  }

 private:
  static constexpr int64_t kNever = -1;

  void want(int64_t offset_bytes);
  int64_t until_wanted(int64_t offset_bytes) const;

  const ByteRange addresses_;
  const int64_t page_bytes_;
  int64_t fresh_bytes_;  // where no window has been yet
  int64_t moment_ = 0;
  int64_t last_moment_ = 0;  // of an iteration, as far as is known
  uint64_t use_count_ = 0;
  std::unordered_map<uint64_t, ByteRange> blocks_;                    // by the occasion's key
  std::vector<int64_t> wanted_;                                       // by page: when, or kNever
  std::map<int64_t, std::unordered_map<int64_t, uint64_t>> windows_;  // size: begin: last use
};

}  // namespace teraio::device
