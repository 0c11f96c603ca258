// Search: improves a plan in rounds, each on the timeline that the simulator reported for the plan
// before, and keeps the best plan.
//
// The simulator executes every plan, and the search learns two things from it. Bandwidth is booked
// against the times at which ops really run, not against the ideal ones. And time has a price:
// where ops stall, a byte to read costs all of its time and a byte of room is worth the most; where
// channels idle, both are almost free.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "base/status.h"
#include "planner/plan_builder.h"
#include "planner/planner.h"

namespace teraio::planner {

// For longer traces, what would take tens of seconds is left out.
constexpr size_t kLongTraceOps = 40'000;

// How far a search goes.
enum class Depth : uint8_t {
  kNextUse,   // plans by next use: see NextUse
  kRounds,    // and the rounds of Effort::kFast
  kThorough,  // and those of Effort::kBest, until nothing helps or to the time limit
};

struct SearchOptions {
  Depth depth = Depth::kNextUse;
  int64_t time_limit_ns = 0;
  bool uses_one_thread = false;  // these two as for PlannerOptions
  const std::atomic<bool>* stop = nullptr;
  int round_factor = 1;  // Depth::kRounds: so many times the rounds
  // A plan of the same problem, which takes the place of the plans by next use. Null: none.
  const plan::Plan* start = nullptr;
  bool relays = false;  // in plans by next use: see NextUseOptions
  // The step of the best plan that is known, of any start. In long traces, what is far from it
  // after its first plan is given up.
  double best_known_ns = std::numeric_limits<double>::infinity();
};

// Returns the best plan found. The work of the first two depths is the same in every run. When
// the write budget binds, writes have a price as well, and room for the minimum write set is
// reserved in the budget. Fails as plan() does. Uses two threads, except with Depth::kNextUse. Pure
// except for the time limit and the stop; any thread may call it.
Result<plan::Plan> search_plan(const Problem& problem, const SearchOptions& options);

}  // namespace teraio::planner
