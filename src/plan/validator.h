// The independent check of a plan: says which rule is broken, by which migration, at which op.
//
// Shares no code with the planners or the simulator, on purpose: it is what their tests call.
#pragma once

#include <string>

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace teraio::plan {

// Ok when `plan` is legal for `trace` in steady state and cannot deadlock: at every op
//   (bytes alive + workspace) - (tensors between their offload's and their prefetch's trigger)
// is within the device budget, and the tiers hold what rests on them. Otherwise kInvalidArgument
// with the rule ("trigger out of range", "drop without copy", "device memory", ...), the
// migration's position in the plan, the tensor's id, and the op.
Status validate_plan(const Plan& plan, const trace::Trace& trace,
                     const hardware::Hardware& hardware, const Limits& limits);

}  // namespace teraio::plan
