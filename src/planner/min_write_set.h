// MinWriteSet: the copies that must be written to the drives when a plan writes as few bytes as
// possible.
//
// Every plan must relieve the excess at each op with offloaded tensors. A tensor that is offloaded
// once and stays clean relieves all of its inactive time with one write; an activation relieves one
// gap:
//
//   op        0   1   2   3   4   5
//   excess        *   *       *          covered at 1, 2 and 4 ...
//   weight        [---------------]      ... by one write of a weight that no op changes,
//   A             [---]                  ... or by one write of activation A for 1 and 2,
//   B                     [---]              and one of activation B for 4
//
// The set is chosen greedily by the pressure relieved per byte written, and copies that have become
// unnecessary are removed, the largest first. With a host tier this is done in two ways, and the
// set that writes less to the drives wins: with both tiers at once, or with the drives alone, after
// which as many copies as fit move to the host tier, those that rest there for the shortest time
// first. Transfer times are ignored. The greedy choice is that of weighted set cover (Chvatal,
// 1979); it does not guarantee the minimum.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"
#include "planner/plan_builder.h"

namespace teraio::planner {

// A value type. Epochs and periods are positions in the Lifetimes of the problem.
struct MinWriteSet {
  std::vector<std::pair<int32_t, plan::Tier>> moves;  // offloaded periods; with them, every op fits
  std::vector<uint8_t> writes_epoch;                  // per epoch: the drives get its copy
  std::vector<uint8_t> host_periods;                  // per period: its copy is on the host
  int64_t ssd_bytes_written = 0;
};

// Finds the set; ignores the write budget of the problem. Fails (kOutOfSpace) when the tiers do not
// have the room. A pure function; any thread may call it.
Result<MinWriteSet> find_min_write_set(const Problem& problem);

// Moves exactly the periods of the set, untimed. Requires that `builder` has no moves and that its
// write budget allows the set.
void apply_write_set(PlanBuilder& builder, const MinWriteSet& write_set);

}  // namespace teraio::planner
