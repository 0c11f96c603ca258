// Lower bounds on the step time: no plan, whatever it moves, can be faster.
//
// What has to be moved between two points of the iteration, at least, is known exactly when tensors
// may be cut into bytes and all transfers are planned with hindsight: evicting what is used last is
// then optimal (Belady). Reads are counted forwards from any state that fits; writes backwards,
// each copy once from the op that made it dirty, which is the same problem with time reversed. The
// bound of a whole iteration is the best way to cut it into windows, each of which takes at least
// its compute and its transfers:
//
//   ops      0 ......... a ............. b ......... c ...... N
//   window   |  compute  |  reads/rate   |  compute  | writes/rate |
#pragma once

#include <cstdint>

#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace teraio::analysis {

struct StepBounds {
  int64_t compute_ns = 0;  // the ops alone
  int64_t traffic_ns = 0;  // bytes of a whole iteration in steady state over the rates
  int64_t windows_ns = 0;  // the best cut into windows

  int64_t best_ns() const;
  bool operator==(const StepBounds&) const = default;
};

// `window_points`: at how many ops of the iteration windows may begin and end, at most; the time
// grows with it in proportion. Half of them are spread out, the others refine the best cut.
// Requires that each op fits into the budget.
StepBounds lower_bounds(const trace::Trace& trace, const hardware::Hardware& hardware,
                        const plan::Limits& limits, int window_points = 96);

}  // namespace teraio::analysis
