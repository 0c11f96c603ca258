// what_if(): predicts a training step on variations of a machine.
//
// Each machine is planned for and simulated, as `teraio plan` and `teraio simulate` do. Where the
// plan of one that has no more of anything is faster, it is used, too (not with Prefer::kWear).
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
  Status status;      // why there is no such run; later fields are valid only when ok
  simulate::Run run;  // without records of ops and transfers
  std::optional<double> drive_life_years;
  std::optional<Cost> cost;  // absent without prices, and when a change has no price
};

// Returns a result per point, in the order of `points`. Uses two threads. Calls `on_done` after
// each point with the number of finished points, from one thread at a time.
std::vector<SweepResult> what_if(const SweepRequest& request, const std::vector<SweepPoint>& points,
                                 const std::function<void(size_t)>& on_done = {});

// Returns the cheapest result per token among those whose step takes at most 1 + `within` times the
// fastest step. When the cost per token is not known for all of them, the lowest price decides;
// when the price is not known either, the first one wins, which is the smallest machine when
// results are in ascending order. Ties go to the first. Nullopt when no result is ok.
std::optional<size_t> cheapest_near_best(const std::vector<SweepResult>& results, double within);

}  // namespace teraio::analysis
