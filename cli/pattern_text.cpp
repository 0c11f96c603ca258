#include "pattern_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/units.h"
#include "drive_life.h"
#include "run_text.h"
#include "table.h"

namespace teraio::cli {
namespace {

using teraio::simulate::PatternChange;
using teraio::simulate::PatternRun;
using teraio::simulate::Run;

std::vector<std::string> row_of(const std::string& name, double share, const Run& run) {
  return {name,
          share_text(share),
          format_duration(run.step_ns),
          format_duration(run.ideal_ns),
          fmt::format("{:.1f} %", 100 * fraction_of_ideal(run)),
          format_duration(run.replay_ns),
          format_duration(run.stall_ns),
          format_size(run.ssd_bytes_written + run.host_bytes_written),
          format_size(run.ssd_bytes_read + run.host_bytes_read)};
}

std::string text_of(const PatternChange& change, const std::vector<PatternRun>& patterns) {
  const std::string& first = patterns[change.first].name;
  const std::string& second = patterns[change.second].name;
  if (!change.status.ok())
    return fmt::format("what a change between {} and {} takes is not known: {}\n", first, second,
                       change.status.message());
  const auto size = [](int64_t bytes) { return format_size(std::max<int64_t>(bytes, 0)); };
  const Run& cost = change.cost;
  return fmt::format("a change from {} to {} and back takes {} more, {} written and {} read\n",
                     first, second, format_duration(std::max<int64_t>(cost.step_ns, 0)),
                     size(cost.ssd_bytes_written + cost.host_bytes_written),
                     size(cost.ssd_bytes_read + cost.host_bytes_read));
}

std::string life_text(const hardware::Hardware& hardware, const Run& mean,
                      const std::optional<Run>& random) {
  const auto life = [&](const Run& run) {
    return drive_life(hardware, run.ssd_bytes_written, run.step_ns);
  };
  if (life(mean).empty()) return "";
  return fmt::format("the drives last {} of training without a pause{}\n", life(mean),
                     random ? fmt::format(", {} in random order", life(*random)) : "");
}

}  // namespace

PatternsPrediction predict(std::span<const PlannedPattern> patterns) {
  PatternsPrediction prediction;
  std::vector<teraio::simulate::PlannedStep> steps;
  for (const auto& [given, plan, run] : patterns) {
    prediction.runs.push_back({given.trace_file, given.share, run});
    steps.push_back({given.trace, plan, run});
  }
  const Inputs& any = patterns.front().given;
  prediction.changes = pattern_changes(steps, any.hardware, any.limits);
  return prediction;
}

std::string text_of(const PatternsPrediction& prediction, const hardware::Hardware& hardware) {
  Table table(
      {"pattern", "share", "step", "ideal", "of ideal", "replays", "stalled", "written", "read"});
  for (const PatternRun& pattern : prediction.runs)
    table.add(row_of(pattern.name, pattern.share, pattern.run));
  const Run mean = mean_run(prediction.runs);
  table.add(row_of("mean step", 1, mean));
  const std::optional<Run> random = mean_run_in_random_order(prediction.runs, prediction.changes);
  if (random) table.add(row_of("in random order", 1, *random));
  std::string text = table.text() + "\n";
  for (const PatternChange& change : prediction.changes) text += text_of(change, prediction.runs);
  return text + "\n" + traffic_text(mean) + life_text(hardware, mean, random);
}

std::string share_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace teraio::cli
