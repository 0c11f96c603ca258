#include "simulate/pattern_run.h"

#include <algorithm>
#include <cmath>

namespace teraio::simulate {
namespace {

class Mean {
 public:
  explicit Mean(std::span<const PatternRun> patterns) : patterns_(patterns) {
    for (const PatternRun& pattern : patterns) shares_ += pattern.share;
  }

  int64_t of(int64_t Run::*field) const {
    return over([field](const Run& run) { return run.*field; });
  }

  int64_t of_stall(const std::string& cause) const {
    return over([&cause](const Run& run) {
      const auto found = run.stall_by_cause_ns.find(cause);
      return found == run.stall_by_cause_ns.end() ? 0 : found->second;
    });
  }

 private:
  template <typename Value>
  int64_t over(Value value_of) const {
    double sum = 0;
    for (const PatternRun& pattern : patterns_)
      sum += pattern.share * static_cast<double>(value_of(pattern.run));
    return std::llround(sum / shares_);
  }

  std::span<const PatternRun> patterns_;
  double shares_ = 0;
};

int64_t highest(std::span<const PatternRun> patterns, int64_t Run::*peak) {
  int64_t bytes = 0;
  for (const PatternRun& pattern : patterns) bytes = std::max(bytes, pattern.run.*peak);
  return bytes;
}

}  // namespace

// Sums are made of rounded parts, so that a mean run adds up as every run does.
Run mean_run(std::span<const PatternRun> patterns) {
  const Mean mean(patterns);
  Run run;
  run.ideal_ns = mean.of(&Run::ideal_ns);
  run.replay_ns = mean.of(&Run::replay_ns);
  for (const PatternRun& pattern : patterns)
    for (const auto& [cause, stall_ns] : pattern.run.stall_by_cause_ns)
      run.stall_by_cause_ns[cause] = mean.of_stall(cause);
  for (const auto& [cause, stall_ns] : run.stall_by_cause_ns) run.stall_ns += stall_ns;
  run.step_ns = run.ideal_ns + run.replay_ns + run.stall_ns;
  for (const auto bytes : {&Run::ssd_bytes_written, &Run::ssd_bytes_read, &Run::host_bytes_written,
                           &Run::host_bytes_read})
    run.*bytes = mean.of(bytes);
  for (const auto peak : {&Run::device_peak_bytes, &Run::host_peak_bytes, &Run::ssd_peak_bytes})
    run.*peak = highest(patterns, peak);
  return run;
}

}  // namespace teraio::simulate
