// RoomSearch: which blocks of an arena have to move so that a gap of some size comes about.
//
// There are two ways, and the one that moves fewer bytes is taken:
//
//      |####..####|XXXX..XX|..|####|......|     the blocks X move into gaps elsewhere
//                 '-region-'
//      |####....|XXXX|..|XX|.......|######|     the blocks X slide down: the gaps become one
//
// Where neither makes room, some blocks between two that stay move elsewhere, and the others slide.
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
// of them; none: there is no such place. A target is free when the moves before it are done, except
// that it may overlap its own block from below. `blocks` has all that is not free, by address.
std::vector<BlockMove> find_moves(std::span<const ArenaBlock> blocks, const Gaps& gaps,
                                  int64_t size_bytes, int64_t most_bytes);

}  // namespace teraio::device
