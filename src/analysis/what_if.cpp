#include "analysis/what_if.h"

#include <algorithm>
#include <mutex>

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

SweepResult result_of(const SweepRequest& request, const SweepPoint& point) {
  SweepResult result{point, {}, {}, {}, {}};
  const Result<MachineConfig> machine = with_values(request.machine, point);
  result.status = machine.status();
  if (!machine.ok()) return result;
  Result<simulate::Run> run = planned_run(request.trace, *machine, request.options);
  result.status = run.status();
  if (!run.ok()) return result;
  run->op_start_ns.clear();
  run->stalls.clear();
  run->transfers.clear();
  result.run = std::move(*run);
  result.drive_life_years =
      drive_life_years(machine->hardware, result.run.ssd_bytes_written, result.run.step_ns);
  if (request.prices && has_price(point))
    result.cost = cost_of(*request.prices, machine->hardware,
                          current_value(*machine, SweepParameter::kHostMemory), result.run,
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
  std::vector<SweepResult> results(points.size());
  std::mutex mutex;
  size_t done = 0;
  // A search with best effort uses two threads itself.
  const int threads = request.options.effort == planner::Effort::kBest ? 1 : 2;
  parallel_for(points.size(), threads, [&](size_t i) {
    results[i] = result_of(request, points[i]);
    const std::lock_guard lock(mutex);
    if (on_done) on_done(++done);
  });
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
