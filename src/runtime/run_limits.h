// The limits within which the plans of a run are made. Pure functions; any thread may call them.
#pragma once

#include <cstdint>

#include "hardware/hardware.h"
#include "iteration/profile.h"
#include "plan/plan.h"
#include "runtime/run_options.h"
#include "trace/trace.h"

namespace teraio::runtime {

// Returns the bytes that one iteration may write to the drives, whose compute takes as long as the
// ops of `trace`. Requires a write budget.
int64_t write_budget_per_iteration(const RunOptions& options, const trace::Trace& trace);

// Returns the limits of a plan for an iteration. The device budget of the plan is that of the run
// without: a margin for rounding and for memory that the profile does not contain; what lives
// through the iteration and no op touches; and `spare_bytes`, which the device wants to keep free
// (Device::spare_bytes()), as far as the largest op leaves them.
plan::Limits limits_for(const iteration::Profile& profile, const hardware::Hardware& hardware,
                        const RunOptions& options, int64_t spare_bytes);

// Returns the least device budget of a run with which there is a plan for the iteration, where the
// tiers have room: with the margin that limits_for() takes, and what plans cannot use.
int64_t least_budget_bytes(const iteration::Profile& profile, int64_t smallest_tensor_bytes);

}  // namespace teraio::runtime
