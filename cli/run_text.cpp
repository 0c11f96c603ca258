#include "run_text.h"

#include <fmt/format.h>

#include "base/units.h"
#include "table.h"

namespace teraio::cli {

std::string step_text(const teraio::simulate::Run& run) {
  std::string text =
      fmt::format("step {}, ideal {}: {:.1f} % of ideal\n", format_duration(run.step_ns),
                  format_duration(run.ideal_ns), 100 * fraction_of_ideal(run));
  if (!run.replays.empty())
    text += fmt::format("{} of it for {} replays, which make discarded tensors again\n",
                        format_duration(run.replay_ns), run.replays.size());
  return text;
}

std::string traffic_text(const teraio::simulate::Run& run) {
  Table table({"", "written", "read", "peak"});
  table.add({"device", "", "", format_size(run.device_peak_bytes)});
  table.add({"host", format_size(run.host_bytes_written), format_size(run.host_bytes_read),
             format_size(run.host_peak_bytes)});
  table.add({"SSD", format_size(run.ssd_bytes_written), format_size(run.ssd_bytes_read),
             format_size(run.ssd_peak_bytes)});
  return table.text();
}

}  // namespace teraio::cli
