// validate_plan(): the independent check of a plan. It says which rule a plan breaks, and where.
//
// It shares no code with the planners or the simulator, because their tests rely on it.
#pragma once

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace teraio::plan {

// Ok when `plan` is legal for `trace` in steady state and cannot deadlock: the tiers have room for
// the copies on them, and at every op
//   (bytes alive + workspace) - (tensors between their offload's and their prefetch's trigger)
// is within the device budget. Discarded tensors are free until they are recomputed, a replay
// counts as an op, and it makes copies of what it restores invalid, as a write does. Otherwise
// kInvalidArgument: the message names the rule ("trigger out of range", "drop without copy",
// "input-discarded", "device memory", ...) and, as far as the rule concerns them, the migration
// with its position in the plan, the id of the tensor, and the op. Requires validate(trace).ok(). A
// pure function; any thread may call it.
//
// Refuses one kind of replays that the format allows: of tensors with several writers.
Status validate_plan(const Plan& plan, const trace::Trace& trace,
                     const hardware::Hardware& hardware, const Limits& limits);

}  // namespace teraio::plan
