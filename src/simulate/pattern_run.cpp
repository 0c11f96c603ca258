#include "simulate/pattern_run.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace teraio::simulate {
namespace {

template <typename Value>
int64_t sum_of(std::span<const WeightedRun> runs, Value value_of) {
  double sum = 0;
  for (const auto& [weight, run] : runs) sum += weight * static_cast<double>(value_of(run));
  return std::llround(sum);
}

int64_t sum_of(std::span<const WeightedRun> runs, int64_t Run::*field) {
  return sum_of(runs, [field](const Run& run) { return run.*field; });
}

int64_t stall_sum_of(std::span<const WeightedRun> runs, const std::string& cause) {
  return sum_of(runs, [&cause](const Run& run) {
    const auto found = run.stall_by_cause_ns.find(cause);
    return found == run.stall_by_cause_ns.end() ? 0 : found->second;
  });
}

int64_t highest(std::span<const WeightedRun> runs, int64_t Run::*peak) {
  int64_t bytes = 0;
  for (const auto& [weight, run] : runs) bytes = std::max(bytes, run.*peak);
  return bytes;
}

}  // namespace

// The step time is made of rounded parts, so that the sum adds up as every run does.
Run weighted_sum(std::span<const WeightedRun> runs) {
  Run sum;
  sum.ideal_ns = sum_of(runs, &Run::ideal_ns);
  sum.replay_ns = sum_of(runs, &Run::replay_ns);
  for (const auto& [weight, run] : runs)
    for (const auto& [cause, stall_ns] : run.stall_by_cause_ns)
      sum.stall_by_cause_ns[cause] = stall_sum_of(runs, cause);
  for (const auto& [cause, stall_ns] : sum.stall_by_cause_ns) sum.stall_ns += stall_ns;
  sum.step_ns = sum.ideal_ns + sum.replay_ns + sum.stall_ns;
  for (const auto bytes : {&Run::ssd_bytes_written, &Run::ssd_bytes_read, &Run::host_bytes_written,
                           &Run::host_bytes_read})
    sum.*bytes = sum_of(runs, bytes);
  for (const auto peak : {&Run::device_peak_bytes, &Run::host_peak_bytes, &Run::ssd_peak_bytes})
    sum.*peak = highest(runs, peak);
  return sum;
}

Run mean_run(std::span<const PatternRun> patterns) {
  double shares = 0;
  for (const PatternRun& pattern : patterns) shares += pattern.share;
  std::vector<WeightedRun> runs;
  for (const PatternRun& pattern : patterns) runs.push_back({pattern.share / shares, pattern.run});
  return weighted_sum(runs);
}

}  // namespace teraio::simulate
