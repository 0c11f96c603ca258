#include "analysis/what_if.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "analysis/parallel_for.h"
#include "analysis/planned_run.h"

namespace teraio::analysis {
namespace {

// A price file has no prices for other devices and other kinds of drives.
bool has_price(const SweepPoint& point) {
  return std::none_of(point.begin(), point.end(), [](const ParameterValue& change) {
    return change.parameter == SweepParameter::kBandwidth ||
           change.parameter == SweepParameter::kDeviceMemory;
  });
}

// What was planned for a point. Without a run, its status says why.
struct Setting {
  MachineConfig machine;
  plan::Plan plan;
  Result<simulate::Run> run;
};

Setting setting_of(const SweepRequest& request, const SweepPoint& point) {
  const Result<MachineConfig> machine = with_values(request.machine, point);
  if (!machine.ok()) return {{}, {}, machine.status()};
  const Result<plan::Plan> plan =
      planner::plan(request.trace, machine->hardware, machine->limits, request.options);
  if (!plan.ok()) return {*machine, {}, plan.status()};
  return {*machine, *plan, run_of_plan(request.trace, *machine, *plan)};
}

bool has_no_less(const MachineConfig& machine, const MachineConfig& other) {
  const auto value = [](const MachineConfig& of, SweepParameter parameter) {
    const int64_t value = current_value(of, parameter);
    return value < 0 ? std::numeric_limits<int64_t>::max() : value;
  };
  return std::ranges::all_of(kSweepParameters, [&](SweepParameter parameter) {
    return value(machine, parameter) >= value(other, parameter);
  });
}

// A plan for less is a plan for more: a machine that has no less is not slower.
void try_plans_for_less(const SweepRequest& request, std::vector<Setting>& settings) {
  for (Setting& setting : settings)
    for (const Setting& other : settings) {
      if (!other.run.ok() || !has_no_less(setting.machine, other.machine)) continue;
      if (setting.run.ok() && setting.run->step_ns <= other.run->step_ns) continue;
      Result<simulate::Run> run = run_of_plan(request.trace, setting.machine, other.plan);
      if (!run.ok() || (setting.run.ok() && setting.run->step_ns <= run->step_ns)) continue;
      setting.plan = other.plan;
      setting.run = std::move(run);
    }
}

SweepResult result_of(const SweepRequest& request, const SweepPoint& point, Setting setting) {
  SweepResult result{point, setting.run.status(), {}, {}, {}};
  if (!setting.run.ok()) return result;
  result.run = std::move(*setting.run);
  result.run.op_start_ns.clear();
  result.run.stalls.clear();
  result.run.transfers.clear();
  result.drive_life_years =
      drive_life_years(setting.machine.hardware, result.run.ssd_bytes_written, result.run.step_ns);
  if (request.prices && has_price(point))
    result.cost = cost_of(*request.prices, setting.machine.hardware,
                          current_value(setting.machine, SweepParameter::kHostMemory), result.run,
                          request.tokens_per_step);
  return result;
}

// The keys to compare candidates by: smaller is cheaper.
std::vector<double> cheapness(const std::vector<SweepResult>& results,
                              const std::vector<size_t>& candidates) {
  const auto all = [&](auto known) {
    return std::all_of(candidates.begin(), candidates.end(),
                       [&](size_t i) { return known(results[i]); });
  };
  const bool per_token =
      all([](const SweepResult& o) { return o.cost && o.cost->per_million_tokens; });
  const bool price = all([](const SweepResult& o) { return o.cost.has_value(); });
  std::vector<double> keys;
  for (size_t i : candidates)
    keys.push_back(per_token ? *results[i].cost->per_million_tokens
                   : price   ? results[i].cost->price
                             : static_cast<double>(i));
  return keys;
}

}  // namespace

std::vector<SweepResult> what_if(const SweepRequest& request, const std::vector<SweepPoint>& points,
                                 const std::function<void(size_t)>& on_done) {
  std::vector<Setting> settings(points.size(), {{}, {}, Status()});
  std::mutex mutex;
  size_t done = 0;
  // A search with best effort uses two threads itself.
  const int threads = request.options.effort == planner::Effort::kBest ? 1 : 2;
  parallel_for(points.size(), threads, [&](size_t i) {
    settings[i] = setting_of(request, points[i]);
    const std::lock_guard lock(mutex);
    if (on_done) on_done(++done);
  });
  if (request.options.prefer == planner::Prefer::kSpeed) try_plans_for_less(request, settings);
  std::vector<SweepResult> results;
  for (size_t i = 0; i < points.size(); ++i)
    results.push_back(result_of(request, points[i], std::move(settings[i])));
  return results;
}

std::optional<size_t> cheapest_near_best(const std::vector<SweepResult>& results, double within) {
  int64_t fastest_ns = 0;
  for (const SweepResult& result : results)
    if (result.status.ok() && (fastest_ns == 0 || result.run.step_ns < fastest_ns))
      fastest_ns = result.run.step_ns;
  std::vector<size_t> candidates;
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].status.ok() && static_cast<double>(results[i].run.step_ns) <=
                                      static_cast<double>(fastest_ns) * (1 + within))
      candidates.push_back(i);
  if (candidates.empty()) return std::nullopt;
  const std::vector<double> keys = cheapness(results, candidates);
  return candidates[std::min_element(keys.begin(), keys.end()) - keys.begin()];
}

}  // namespace teraio::analysis
