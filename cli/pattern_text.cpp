#include "pattern_text.h"

#include <fmt/format.h>

#include "base/units.h"
#include "drive_life.h"
#include "run_text.h"
#include "table.h"

namespace teraio::cli {
namespace {

std::vector<std::string> row_of(const std::string& name, double share,
                                const teraio::simulate::Run& run) {
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

}  // namespace

std::string patterns_text(std::span<const simulate::PatternRun> patterns,
                          const hardware::Hardware& hardware) {
  Table table(
      {"pattern", "share", "step", "ideal", "of ideal", "replays", "stalled", "written", "read"});
  for (const simulate::PatternRun& pattern : patterns)
    table.add(row_of(pattern.name, pattern.share, pattern.run));
  const teraio::simulate::Run mean = simulate::mean_run(patterns);
  table.add(row_of("mean step", 1, mean));
  std::string text = table.text() + "\n" + traffic_text(mean);
  const std::string life = drive_life(hardware, mean.ssd_bytes_written, mean.step_ns);
  if (!life.empty()) text += fmt::format("the drives last {} of training without a pause\n", life);
  return text;
}

std::string share_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace teraio::cli
