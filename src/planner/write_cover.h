// WriteCover: which copies have to be written to the drives, if as little as possible is.
//
// Any plan has to cover every op's excess with tensors that are away. A tensor that leaves once and
// stays clean covers all of its idle time with one write; an activation covers one gap. The cover
// is chosen greedily by pressure covered per byte written, thinned out, and then as much of it as
// fits is given to host memory, what rests there shortest first. Time plays no part.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"
#include "planner/plan_builder.h"

namespace teraio::planner {

struct WriteCover {
  std::vector<std::pair<int32_t, plan::Tier>> moves;  // periods that are spent away; every op fits
  std::vector<uint8_t> writes_epoch;  // per epoch: its copy is written to the drives
  std::vector<uint8_t> host_periods;  // per period: spent on the host
  int64_t ssd_bytes_written = 0;
};

// Whatever the problem's write budget is. Fails (kOutOfSpace) when the tiers do not have the room.
Result<WriteCover> least_write_cover(const Problem& problem);

// Moves just the cover, untimed. Requires that `builder` has no moves and may write that much.
void move_cover(PlanBuilder& builder, const WriteCover& cover);

}  // namespace teraio::planner
