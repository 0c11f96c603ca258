#include "runtime/run_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "planner/planner.h"
#include "runtime/run_limits.h"
#include "simulate/simulator.h"

namespace teraio::runtime {
namespace {

// Fewer cores are the training's.
constexpr int64_t kCoresWithASpareOne = 4;
// One thread at a low priority does in so many times the time what two do in the time limit.
constexpr int64_t kTimeFactorBeside = 4;
// A search goes on where the plan that is made is better than the kept one by so much.
constexpr double kSearchedRatioMax = 1.01;

// The planner's message has the part of the budget that plans get.
Status with_least_budget(const Status& refusal, const iteration::Profile& profile,
                         const RunOptions& options) {
  const int64_t least_bytes = least_budget_bytes(profile, options.smallest_tensor_bytes);
  if (refusal.code() != ErrorCode::kOutOfMemory || least_bytes <= options.device_budget_bytes)
    return refusal;
  return Status(refusal.code(),
                fmt::format("the iteration needs a device budget of {} bytes ({}), and the run has "
                            "{}",
                            least_bytes, format_size(least_bytes),
                            format_size(options.device_budget_bytes)))
      .with_details({refusal.message()})
      .with_details(refusal.details());
}

}  // namespace

bool searches_for_plans(const RunOptions& options, int64_t core_count) {
  using Effort = RunOptions::Effort;
  if (options.effort != Effort::kAuto) return options.effort == Effort::kBest;
  if (options.plan_path || !options.plans_in_background) return false;
  const auto rank_count = std::max<int64_t>(1, std::ssize(options.rank_directories));
  return core_count / rank_count >= kCoresWithASpareOne;
}

bool keeps_plans(const RunOptions& options) {
  return !options.cache_directory.empty() &&
         searches_for_plans(options, std::numeric_limits<int64_t>::max());
}

Status RunPlanner::open_given_plan() {
  if (!options_.plan_path) return {};
  Result<GivenPlan> plan = GivenPlan::open(*options_.plan_path);
  if (!plan.ok()) return plan.status();
  given_plan_ = std::move(*plan);
  return {};
}

Result<plan::Plan> RunPlanner::make_plan(const iteration::Profile& profile,
                                         const hardware::Hardware& hardware, int64_t spare_bytes) {
  const plan::Limits limits = limits_for(profile, hardware, options_, spare_bytes);
  Result<plan::Plan> plan = plan_for(profile.trace, hardware, limits);
  if (!plan.ok()) return with_least_budget(plan.status(), profile, options_);
  Prediction prediction = predict(profile, hardware, limits, *plan);
  if (keeps_plans(options_) && !given_plan_) prefer_kept_plan(profile, *plan, prediction);
  predictions_.keep(profile.trace.name, std::move(prediction));
  return plan;
}

// Op times and rates are those of this run, so that a kept plan which they do not suit is not used.
void RunPlanner::prefer_kept_plan(const iteration::Profile& profile, plan::Plan& plan,
                                  Prediction& prediction) {
  searched_.erase(profile.trace.name);
  std::optional<plan::Plan> kept = kept_plans().find(
      {profile.trace, prediction.hardware, prediction.limits, options_.recompute});
  if (!kept) return;
  Prediction with_kept = predict(profile, prediction.hardware, prediction.limits, *kept);
  if (with_kept.step_ns == 0) return;
  if (static_cast<double>(with_kept.step_ns) <=
      kSearchedRatioMax * static_cast<double>(prediction.step_ns))
    searched_.insert(profile.trace.name);
  if (with_kept.step_ns > prediction.step_ns) return;
  with_kept.is_kept = true;
  plan = std::move(*kept);
  prediction = std::move(with_kept);
}

Result<learn::FoundPlan> RunPlanner::improve_plan(const iteration::Schedule& schedule,
                                                  const hardware::Hardware& hardware,
                                                  int64_t spare_bytes,
                                                  const std::atomic<bool>& stop) {
  const iteration::Profile& profile = schedule.profile();
  if (searched_.contains(profile.trace.name))
    return Status(ErrorCode::kNotFound, "an earlier search has found no better plan");
  const plan::Limits limits = limits_for(profile, hardware, options_, spare_bytes);
  const Result<simulate::Run> before =
      simulate::simulate(profile.trace, hardware, limits, *schedule.plan());
  if (!before.ok()) return before.status();
  planner::PlannerOptions options;
  options.effort = planner::Effort::kBest;
  options.recompute = options_.recompute;
  options.stop = &stop;
  options.uses_one_thread = options_.plans_in_background;
  if (options.uses_one_thread)
    options.time_limit_ns = kTimeFactorBeside * time_limit_ns(options, profile.trace);
  Result<plan::Plan> plan = planner::plan(profile.trace, hardware, limits, options);
  if (!plan.ok()) return plan.status();
  const Prediction prediction = predict(profile, hardware, limits, *plan);
  if (keeps_plans(options_) && !stop)
    kept_plans().keep(prediction.step_ns < before->step_ns ? *plan : *schedule.plan(),
                      {profile.trace, hardware, limits, options_.recompute});
  return learn::FoundPlan{
      std::move(*plan), prediction.step_ns, before->step_ns,
      [this, name = profile.trace.name, prediction] { predictions_.keep(name, prediction); }};
}

Result<plan::Plan> RunPlanner::plan_for(const trace::Trace& trace,
                                        const hardware::Hardware& hardware,
                                        const plan::Limits& limits) {
  if (!given_plan_) return plan_within(trace, hardware, limits);
  Result<std::optional<plan::Plan>> given = given_plan_->plan_for(trace, hardware, limits);
  if (!given.ok()) return given.status();
  if (*given) return std::move(**given);
  return plan_within(trace, hardware, limits);
}

Result<plan::Plan> RunPlanner::plan_within(const trace::Trace& trace,
                                           const hardware::Hardware& hardware,
                                           plan::Limits limits) const {
  planner::PlannerOptions options;
  options.recompute = options_.recompute;
  Result<plan::Plan> plan = planner::plan(trace, hardware, limits, options);
  if (plan.ok() || !limits.write_budget_bytes) return plan;
  const Result<int64_t> least_bytes = planner::min_write_budget_bytes(trace, hardware, limits);
  if (!least_bytes.ok() || *least_bytes <= *limits.write_budget_bytes) return plan;
  log_warning(fmt::format(
      "teraio: the write budget allows {} per iteration, and about {} is the least that this "
      "device budget needs: plans write that much. Raise the device budget to write less",
      format_size(*limits.write_budget_bytes), format_size(*least_bytes)));
  limits.write_budget_bytes = *least_bytes;
  return planner::plan(trace, hardware, limits, options);
}

}  // namespace teraio::runtime
