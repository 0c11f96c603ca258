// what_if(): what a training step would do on machines that differ from the one at hand.
//
// Each of them is planned for and simulated, as `teraio plan` and `teraio simulate` do.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "analysis/machine_config.h"
#include "analysis/prices.h"
#include "planner/planner.h"
#include "simulate/run.h"
#include "trace/trace.h"

namespace teraio::analysis {

struct SweepRequest {
  trace::Trace trace;
  MachineConfig machine;
  planner::PlannerOptions options;
  std::optional<Prices> prices;
  std::optional<int64_t> tokens_per_step;  // of the whole server
};

using SweepPoint = std::vector<ParameterValue>;

struct SweepResult {
  SweepPoint point;
  Status status;      // why it cannot be; what follows has a meaning only when it is ok
  simulate::Run run;  // without records of ops and transfers
  std::optional<double> drive_life_years;
  std::optional<Cost> cost;  // none without prices, and where a change has no price
};

// In the order of `points`. Uses two threads. `on_done` is called after each, with how many are
// done, from one thread at a time.
std::vector<SweepResult> what_if(const SweepRequest& request, const std::vector<SweepPoint>& points,
                                 const std::function<void(size_t)>& on_done = {});

// Of the results whose step takes at most 1 + `within` of the fastest one's: the cheapest per
// token; if that is not known of all of them, the lowest price; if that is not known either, the
// first, which is the one that asks for least when they are in ascending order. Ties go to the
// first. Nothing when no result is ok.
std::optional<size_t> cheapest_near_best(const std::vector<SweepResult>& results, double within);

}  // namespace teraio::analysis
