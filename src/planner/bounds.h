// Lower bounds on the step time, which no plan can undercut. Pure functions; any thread may call
// them.
//
// The least bytes that must move between two points of the iteration can be computed exactly when
// tensors may be divided into bytes and all transfers are known in advance: evicting the tensor
// with the farthest next use is then optimal (Belady, 1966). Reads are counted forwards from any
// state that fits. Writes are counted backwards, each copy once at the op that made its content: to
// offload what was made first is then optimal. The bound of an iteration is the best way to cut it
// into windows, each of which takes at least its compute time and its transfer time:
//
//   ops      0 ......... a ............. b ......... c ...... N
//   window   |  compute  |  reads/rate   |  compute  | writes/rate |
#pragma once

#include <cstdint>

#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace teraio::planner {

struct StepBounds {
  int64_t compute_ns = 0;  // the compute time of all ops
  int64_t traffic_ns = 0;  // the bytes of an iteration in steady state, over the rates
  int64_t windows_ns = 0;  // the best cut into windows

  int64_t best_ns() const;
  bool operator==(const StepBounds&) const = default;
};

// `window_points`: the most ops at which windows may begin or end; the running time grows with it.
// A quarter of the points are where most bytes move in little time, another quarter is spread over
// the iteration, and the others refine the best cut. Requires validate(trace).ok() and that each op
// fits into the budget.
StepBounds lower_bounds(const trace::Trace& trace, const hardware::Hardware& hardware,
                        const plan::Limits& limits, int window_points = 192);

}  // namespace teraio::planner
