// Search: plans again on the timeline that the plan before stretched, and keeps the best.
//
// Two things are learned from each execution. Bandwidth is booked against when ops really run, not
// against the ideal. And time has a price: where ops stall, a byte that must be read costs all of
// its time and a byte of room is worth most; where channels idle, both are nearly free.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/draft.h"
#include "planner/planner.h"

namespace teraio::planner {

// How a draft would run.
struct Execution {
  double step_ns = 0;
  std::vector<double> stretched_ns;  // per op: from its predecessor's end to its own
};

// Nothing when the draft cannot be executed. The plan is plan_of(draft). Called from two threads at
// once.
using Execute = std::function<std::optional<Execution>(const Draft& draft, const plan::Plan& plan)>;

// The best plan found, by `execute`. Goes on until the rounds of the effort are used up, nothing is
// left to gain, or the time limit is over: rounds are made until one gave a plan, whatever they
// take. Under a write budget that binds, writes have a price too, and what has to be written at
// least is reserved. Fails as plan() does.
Result<plan::Plan> search_plan(const Problem& problem, const PlannerOptions& options,
                               const Execute& execute);

// plan(), with drafts judged by `execute` instead of the planner's own forecast.
Result<plan::Plan> plan(const trace::Trace& trace, const hardware::Hardware& hardware,
                        const plan::Limits& limits, const PlannerOptions& options,
                        const Execute& execute);

}  // namespace teraio::planner
