#include "runtime/run_limits.h"

#include <algorithm>
#include <cmath>

#include "planner/planner.h"

namespace teraio::runtime {
namespace {

constexpr double kPlanMargin = 0.01;  // the share of the device budget that plans leave free

// Returns what an iteration leaves to tensors that plans may move.
int64_t plannable_bytes(const iteration::Profile& profile, int64_t device_budget_bytes) {
  const auto margin_bytes =
      static_cast<int64_t>(static_cast<double>(device_budget_bytes) * kPlanMargin);
  return device_budget_bytes - margin_bytes - profile.untouched_bytes;
}

}  // namespace

int64_t write_budget_per_iteration(const RunOptions& options, const trace::Trace& trace) {
  if (options.write_budget_period_seconds == 0) return *options.write_budget_bytes;
  const double iteration_seconds = static_cast<double>(ideal_ns(trace)) / 1e9;
  const double iterations_per_period =
      static_cast<double>(options.write_budget_period_seconds) / iteration_seconds;
  return std::llround(static_cast<double>(*options.write_budget_bytes) /
                      std::max(iterations_per_period, 1e-9));
}

plan::Limits limits_for(const iteration::Profile& profile, const hardware::Hardware& hardware,
                        const RunOptions& options, int64_t spare_bytes) {
  const int64_t most_bytes = plannable_bytes(profile, options.device_budget_bytes);
  plan::Limits limits;
  limits.device_budget_bytes = most_bytes;
  limits.host_limit_bytes = hardware.host.capacity_bytes;
  limits.smallest_tensor_bytes = options.smallest_tensor_bytes;
  if (options.write_budget_bytes)
    limits.write_budget_bytes = write_budget_per_iteration(options, profile.trace);
  // What an op needs at once comes first.
  const int64_t least_bytes = planner::min_device_budget_bytes(profile.trace, limits);
  spare_bytes = std::min(spare_bytes, most_bytes - least_bytes);
  limits.device_budget_bytes = most_bytes - std::max<int64_t>(spare_bytes, 0);
  return limits;
}

int64_t least_budget_bytes(const iteration::Profile& profile, int64_t smallest_tensor_bytes) {
  plan::Limits limits;
  limits.smallest_tensor_bytes = smallest_tensor_bytes;
  const int64_t least_bytes =
      planner::min_device_budget_bytes(profile.trace, limits) + profile.untouched_bytes;
  return static_cast<int64_t>(std::ceil(static_cast<double>(least_bytes) / (1 - kPlanMargin)));
}

}  // namespace teraio::runtime
