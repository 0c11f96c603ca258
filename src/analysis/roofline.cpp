#include "analysis/roofline.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/parallel_for.h"
#include "planner/bounds.h"
#include "planner/planner.h"

namespace teraio::analysis {
namespace {

constexpr int64_t kWithoutLimit = int64_t{1} << 56;
constexpr int kThreads = 2;

hardware::Hardware machine_with(int64_t device_memory_bytes, int64_t rate) {
  hardware::Hardware hardware;
  hardware.name = "roofline";
  hardware.device_memory_bytes = device_memory_bytes;
  hardware.device_link = {kWithoutLimit, kWithoutLimit};
  hardware.drives = {{"drives", kWithoutLimit, {rate, rate}, 2.0, {}}};
  return hardware;
}

double fraction_at(const trace::Trace& trace, int64_t device_memory_bytes, int64_t rate) {
  const planner::StepBounds bounds =
      planner::lower_bounds(trace, machine_with(device_memory_bytes, rate), {});
  if (bounds.best_ns() == 0) return 1.0;
  return static_cast<double>(bounds.compute_ns) / static_cast<double>(bounds.best_ns());
}

}  // namespace

Result<std::vector<RooflinePoint>> migration_roofline(const trace::Trace& trace,
                                                      int64_t device_memory_bytes,
                                                      std::span<const int64_t> rates) {
  const int64_t least_bytes = planner::min_device_budget_bytes(trace, {});
  if (least_bytes > device_memory_bytes)
    return Status(ErrorCode::kOutOfMemory,
                  fmt::format("an op needs {} bytes at once, the device has {}: no bandwidth helps",
                              least_bytes, device_memory_bytes));
  std::vector<RooflinePoint> points(rates.size());
  parallel_for(rates.size(), kThreads, [&](size_t i) {
    points[i] = {rates[i], fraction_at(trace, device_memory_bytes, rates[i])};
  });
  return points;
}

}  // namespace teraio::analysis
