#include "learn/drive_rate_monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/units.h"

namespace teraio::learn {
namespace {

// Between these a drive is as fast as planned: what other programs take and give back is not worth
// a new plan.
constexpr double kSlow = 0.75;
constexpr double kFast = 1.5;
constexpr int kDeviationsToBelieve = 2;  // measurements in a row

double share(int64_t measured, int64_t planned) {
  return planned > 0 ? static_cast<double>(measured) / static_cast<double>(planned) : 0;
}

// How fast the drive is, over what was planned. Directions that are busy at once share the drive
// (r/R + w/W <= duplex), and the counters do not say how much of the time they were: each was at
// least as fast as its own share, and at most as the two together.
struct Speed {
  double least = 0;
  double most = 0;
};

std::optional<Speed> measured_speed(const storage::DriveCounters& measured,
                                    const hardware::Drive& planned) {
  const double read =
      share(measured.recent_rates.read_bytes_per_second, planned.rates.read_bytes_per_second);
  const double write =
      share(measured.recent_rates.write_bytes_per_second, planned.rates.write_bytes_per_second);
  const bool is_read_known = read > 0 || measured.bytes_read == 0;
  const bool is_write_known = write > 0 || measured.bytes_written == 0;
  if (!is_read_known || !is_write_known || read + write <= 0) return std::nullopt;
  const double least = std::max(read, write);
  return Speed{least, std::max((read + write) / planned.duplex, least)};
}

int64_t scaled(int64_t rate, double factor) {
  return std::max<int64_t>(std::llround(static_cast<double>(rate) * factor), 1);
}

}  // namespace

DriveRateMonitor::DriveRateMonitor(hardware::Hardware hardware) : hardware_(std::move(hardware)) {
  for (const hardware::Drive& drive : hardware_.drives) watched_.push_back({drive.rates, 1, {}, 0});
}

std::optional<std::string> DriveRateMonitor::note_iteration(
    const std::vector<storage::DriveCounters>& drives) {
  std::string changes;
  for (size_t i = 0; i < std::min(drives.size(), watched_.size()); ++i) {
    Watched& watched = watched_[i];
    hardware::Drive& planned = hardware_.drives[i];
    const Rates& measured = drives[i].recent_rates;
    if (std::exchange(watched.seen, measured) == measured) continue;  // nothing new
    const std::optional<Speed> speed = measured_speed(drives[i], planned);
    const bool is_slower = speed && speed->most < kSlow;
    const bool is_faster = speed && speed->least > kFast;
    if (!is_slower && !is_faster) {
      watched.deviations = 0;
      continue;
    }
    if (++watched.deviations < kDeviationsToBelieve) continue;
    watched.deviations = 0;
    const double factor = is_slower ? speed->most : speed->least;
    watched.speed *= factor;
    planned.rates = {scaled(watched.first.read_bytes_per_second, watched.speed),
                     scaled(watched.first.write_bytes_per_second, watched.speed)};
    changes +=
        fmt::format("{}drive {} is {} than planned, now taken for read {}/s, write {}/s",
                    changes.empty() ? "" : "; ", planned.name, is_slower ? "slower" : "faster",
                    format_size(planned.rates.read_bytes_per_second),
                    format_size(planned.rates.write_bytes_per_second));
  }
  if (changes.empty()) return std::nullopt;
  return changes;
}

}  // namespace teraio::learn
