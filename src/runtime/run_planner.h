// RunPlanner: which plan an iteration of the run gets. It is that of the given file where it fits,
// and otherwise one that is made within the limits of the run, or the kept one of an earlier search
// if that is better; and then a better one.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "base/status.h"
#include "hardware/hardware.h"
#include "iteration/profile.h"
#include "iteration/schedule.h"
#include "learn/planning_thread.h"
#include "plan/plan.h"
#include "runtime/given_plan.h"
#include "runtime/kept_plans.h"
#include "runtime/prediction.h"
#include "runtime/run_options.h"
#include "trace/trace.h"

namespace teraio::runtime {

// Whether better plans are searched for than those that are made first, in a process that may use
// so many cores.
bool searches_for_plans(const RunOptions& options, int64_t core_count);
// Whether the plans that searches find are kept for later runs, and used: where there may be such
// searches, on as many cores as it takes.
bool keeps_plans(const RunOptions& options);

// Threads: one at a time makes plans; any thread may ask for predictions meanwhile.
class RunPlanner {
 public:
  // `options` must outlive the object.
  explicit RunPlanner(const RunOptions& options) : options_(options) {}

  // Opens the plan file of the options, if they have one. Fails as GivenPlan::open().
  Status open_given_plan();

  // Returns the plan for the iteration of a profile. `spare_bytes` as for limits_for(). If the
  // write budget is too small for any plan, it logs that and returns a plan with the smallest
  // budget that suffices: an error would lead to on-demand migration, which writes more. Fails as
  // planner::plan() and GivenPlan::plan_for() do.
  Result<plan::Plan> make_plan(const iteration::Profile& profile,
                               const hardware::Hardware& hardware, int64_t spare_bytes);

  // Searches for a better plan than that of the schedule, by Effort::kBest: on one thread beside
  // the training, and then for longer. When the plan takes over, its prediction holds. Fails as
  // planner::plan() does, when the plan of the schedule is not legal any more, and when an earlier
  // search has found no better one.
  Result<learn::FoundPlan> improve_plan(const iteration::Schedule& schedule,
                                        const hardware::Hardware& hardware, int64_t spare_bytes,
                                        const std::atomic<bool>& stop);

  // Returns the prediction for the newest plan that holds for the trace of this name, or nothing
  // when there is none.
  std::optional<Prediction> prediction(const std::string& trace_name) const {
    return predictions_.find(trace_name);
  }

 private:
  Result<plan::Plan> plan_for(const trace::Trace& trace, const hardware::Hardware& hardware,
                              const plan::Limits& limits);
  Result<plan::Plan> plan_within(const trace::Trace& trace, const hardware::Hardware& hardware,
                                 plan::Limits limits) const;
  void prefer_kept_plan(const iteration::Profile& profile, plan::Plan& plan,
                        Prediction& prediction);
  KeptPlans kept_plans() const { return KeptPlans(options_.cache_directory); }

  const RunOptions& options_;
  std::optional<GivenPlan> given_plan_;
  std::set<std::string> searched_;  // traces whose plan is about as good as the kept one
  Predictions predictions_;
};

}  // namespace teraio::runtime
