// Lower bounds on the step time of plans that may recompute tensors. Pure functions; any thread may
// call them.
#pragma once

#include "hardware/hardware.h"
#include "plan/plan.h"
#include "planner/bounds.h"
#include "trace/trace.h"

namespace teraio::planner {

// Returns bounds for all plans that replay tensors with one writer, as `teraio plan --recompute`
// makes them. They are those of lower_bounds() for a trace in which every such tensor is gone
// between its uses and comes back at no cost: replays take no time, need no inputs and no scratch.
// Requires what lower_bounds() requires.
StepBounds lower_bounds_with_replays(const trace::Trace& trace, const hardware::Hardware& hardware,
                                     const plan::Limits& limits, int window_points = 192);

}  // namespace teraio::planner
