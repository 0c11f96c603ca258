// RoomSearch: which blocks of an arena have to move so that a gap of some size comes about.
//
//      |####..####|XXXX..XX|..|####|......|     the blocks X move into gaps elsewhere
//                 '-window-'
//
// It chooses the range of addresses, the window, where the fewest bytes have to move.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/range_set.h"
#include "device/gaps.h"

namespace teraio::device {

struct ArenaBlock {
  ByteRange range;
  double leaves_at = 0;  // Tenant::leaves_at
  bool may_move = false;
};

struct BlockMove {
  ByteRange from;
  int64_t to_bytes = 0;
};

// Returns the moves that make a gap of `size_bytes` from blocks that may move, at most `most_bytes`
// of them; none: there is no such place. Every target is free before the first move, so that their
// order does not matter. `blocks` has all that is not free, by address.
std::vector<BlockMove> find_moves(std::span<const ArenaBlock> blocks, const Gaps& gaps,
                                  int64_t size_bytes, int64_t most_bytes);

}  // namespace teraio::device
