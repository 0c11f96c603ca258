// plan(): from a trace and a machine to migrations. Pure: no clock but the time limit's, no state.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace teraio::planner {

enum class Policy : uint8_t {
  kTeraio,      // ours
  kAlgorithm1,  // as the paper has it
};

enum class Effort : uint8_t {
  kFast,  // within a blink: what a run uses while it goes on
  kBest,  // search until nothing helps or the time limit
};

struct PlannerOptions {
  Policy policy = Policy::kTeraio;
  Effort effort = Effort::kFast;
  int64_t time_limit_ns = 30'000'000'000;
};

// A plan that validate_plan accepts; with Policy::kTeraio it is the best of those that the
// simulator executed, and never slower than paging on demand. Deterministic for a given input and
// options, unless the time limit cuts a search short. Empty when everything fits. kOutOfMemory when
// an op cannot fit whatever is moved: the message names the op, the bytes that it needs, the
// budget, and the least budget that would do. kOutOfSpace when the tiers have no room, or when the
// write budget is too small: the message names the least that would do.
Result<plan::Plan> plan(const trace::Trace& trace, const hardware::Hardware& hardware,
                        const plan::Limits& limits, const PlannerOptions& options = {});

// The least device budget for which plan() succeeds: the largest op's active bytes, births and
// workspace, with what smallest_tensor_bytes keeps in place.
int64_t min_device_budget_bytes(const trace::Trace& trace, const plan::Limits& limits);

// A write budget, in bytes per iteration, for which plan() succeeds, and about the least one. 0
// when everything fits. Fails as plan() does.
Result<int64_t> min_write_budget_bytes(const trace::Trace& trace,
                                       const hardware::Hardware& hardware,
                                       const plan::Limits& limits);

}  // namespace teraio::planner
