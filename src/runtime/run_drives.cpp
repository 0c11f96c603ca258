#include "runtime/run_drives.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "drives/drive_endurance.h"
#include "probe/learned_rates.h"
#include "probe/probe_cache.h"
#include "probe/rank_share.h"

namespace teraio::runtime {
namespace {

// Returns the measurement of the drive, scaled down to the share of one rank.
Result<probe::DriveProbe> measured_share(const std::filesystem::path& directory,
                                         const RunOptions& options,
                                         const std::function<bool()>& is_interrupted,
                                         int32_t rank_count) {
  probe::ProbeOptions probe_options;
  probe_options.progress = options.progress;
  probe_options.is_interrupted = is_interrupted;
  Result<probe::DriveProbe> probe =
      cached_or_measured(options.cache_directory, directory, probe_options);
  if (!probe.ok()) return probe;
  return share_of(std::move(*probe), rank_count);
}

DriveShare to_share(const std::filesystem::path& directory, const probe::DriveProbe& probe,
                    int32_t rank_count) {
  DriveShare share = {directory, rank_count, {}};
  share.drive.name = probe.name;
  share.drive.capacity_bytes = probe.capacity_bytes;
  share.drive.rates = probe.rates;
  share.drive.duplex = probe.duplex;
  share.drive.rated_bytes_written = drives::rated_bytes_written(directory);
  if (share.drive.rated_bytes_written) *share.drive.rated_bytes_written /= rank_count;
  return share;
}

bool has_drive(const RunDrives& drives, const std::string& name) {
  return std::any_of(drives.shares.begin(), drives.shares.end(),
                     [&](const DriveShare& share) { return share.drive.name == name; });
}

// Returns what later runs should know of the drive; nothing when the run has loaded it too little.
std::optional<probe::DriveProbe> learned_from_run(const RunOptions& options,
                                                  const DriveShare& share,
                                                  const storage::TierCounters& ssd) {
  const std::string name = fmt::format("{} ({})", share.drive.name, share.directory.string());
  const auto run = std::find_if(ssd.drives.begin(), ssd.drives.end(),
                                [&](const auto& drive) { return drive.name == name; });
  const auto known = probe::load_cached_probe(options.cache_directory, share.directory);
  if (run == ssd.drives.end() || !known) return std::nullopt;
  return probe::learned_from(*run, *known);
}

}  // namespace

Result<RunDrives> measure_drives(const RunOptions& options,
                                 const std::function<bool()>& is_interrupted) {
  RunDrives drives;
  for (const std::filesystem::path& path : options.ssd_directories) {
    const Result<int32_t> rank_count = probe::ranks_on_drive(path, options.rank_directories);
    if (!rank_count.ok()) return rank_count.status();
    const Result<probe::DriveProbe> probe =
        measured_share(path, options, is_interrupted, *rank_count);
    if (!probe.ok()) return probe.status();
    if (!has_drive(drives, probe->name))
      drives.shares.push_back(to_share(path, *probe, *rank_count));
    drives.request_latency_ns = std::max(drives.request_latency_ns, probe->request_latency_ns);
    drives.directories.push_back({path, probe->rates});
  }
  return drives;
}

hardware::Hardware with_reached_rates(hardware::Hardware hardware,
                                      const storage::TierCounters& ssd) {
  for (size_t i = 0; i < std::min(hardware.drives.size(), ssd.drives.size()); ++i) {
    probe::DriveProbe known;
    known.rates = hardware.drives[i].rates;
    known.duplex = hardware.drives[i].duplex;
    const auto reached = probe::learned_from(ssd.drives[i], known);
    if (!reached) continue;
    hardware.drives[i].rates = reached->rates;
    hardware.drives[i].duplex = reached->duplex;
  }
  return hardware;
}

void keep_learned_rates(const RunOptions& options, const std::vector<DriveShare>& shares,
                        const storage::TierCounters& ssd) {
  if (options.checksum) return;
  for (const DriveShare& share : shares) {
    if (share.rank_count > 1) continue;
    const auto learned = learned_from_run(options, share, ssd);
    if (!learned) continue;
    const Status kept = save_cached_probe(options.cache_directory, *learned);
    if (!kept.ok())
      log_warning("teraio: the rates of a drive cannot be kept: " + kept.message() +
                  ". Only later runs are concerned: they plan with older rates" +
                  detail_lines(kept));
  }
}

}  // namespace teraio::runtime
