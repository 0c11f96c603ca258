// plan(): makes the plan for a trace on a machine. Pure functions, except for the time limit; any
// thread may call them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace teraio::planner {

enum class Policy : uint8_t {
  kTeraio,      // the planner of this project
  kAlgorithm1,  // the paper's planner
};

enum class Effort : uint8_t {
  kFast,  // a fixed amount of work, for planning during a run
  kBest,  // the same, and then search until nothing helps or to the time limit
};

// Which tensors may be discarded and made again by a replay of the op that made them.
enum class Recompute : uint8_t {
  kOff,
  kCheap,  // those whose replay takes less than a tenth of the time to move them out and back
  kAll,
};

enum class Prefer : uint8_t {
  kSpeed,  // the shortest step; of steps as good as equal, the fewest bytes written
  kWear,   // the fewest bytes written to the drives, in a step at most kWearSlack times as long
};

constexpr double kWearSlack = 1.005;

struct PlannerOptions {
  Policy policy = Policy::kTeraio;
  Effort effort = Effort::kFast;
  Recompute recompute = Recompute::kAll;  // these two with Policy::kTeraio only
  Prefer prefer = Prefer::kSpeed;
  std::optional<int64_t> time_limit_ns;  // see time_limit_ns()
  bool uses_one_thread = false;          // instead of two; the plan is the same
  // Once true, the search soon ends with the best plan so far. Null: nobody stops it.
  const std::atomic<bool>* stop = nullptr;
};

// The limit of the options. By default 10 s for up to 10,000 ops, and 60 s for more: a round of the
// search then takes seconds.
int64_t time_limit_ns(const PlannerOptions& options, const trace::Trace& trace);

// Returns a plan that validate_plan() accepts; an empty plan when everything fits. With
// Policy::kTeraio it is the plan that the simulator executed fastest, or one at most 0.05 % slower
// that writes less to the drives; never slower there, beyond that, than a legal plan of on-demand
// paging. More memory or bandwidth may, rarely, give a slower step
// (tests/planner/properties_test.cpp has the rate). Deterministic for given inputs and options,
// unless the time limit ends it. Fails with kInvalidArgument when an input breaks a rule of its
// format; with kOutOfMemory when an op cannot fit whatever moves: the message names the op, the
// bytes that it needs, the budget, and the least sufficient budget; and with kOutOfSpace when the
// tiers have no room or the write budget is too small: with Policy::kTeraio the message names the
// least sufficient write budget.
Result<plan::Plan> plan(const trace::Trace& trace, const hardware::Hardware& hardware,
                        const plan::Limits& limits, const PlannerOptions& options = {});

// Returns the least device budget for which plan() succeeds when the tiers have room: the largest
// sum of active tensors, workspace and tensors that cannot move at any op. Requires a valid trace.
int64_t min_device_budget_bytes(const trace::Trace& trace, const plan::Limits& limits);

// Returns a write budget in bytes per iteration for which plan() succeeds. It is close to the least
// one; 0 when everything fits. Fails as plan() does.
Result<int64_t> min_write_budget_bytes(const trace::Trace& trace,
                                       const hardware::Hardware& hardware,
                                       const plan::Limits& limits);

}  // namespace teraio::planner
