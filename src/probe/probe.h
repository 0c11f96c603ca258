// Measures the drives behind directories and describes them as Hardware drives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "probe/sustained_rate.h"

namespace teraio::probe {

struct DriveProbe {
  std::filesystem::path directory;
  std::string identity;  // model, serial, firmware, mount and engine settings: the cache's key
  std::string name;
  int64_t capacity_bytes = 0;  // free room now
  int64_t read_bytes_per_second = 0;
  int64_t write_bytes_per_second = 0;
  double duplex = 1.0;  // from reads and writes at once
  int64_t request_latency_ns = 0;
  int64_t written_bytes = 0;  // to measure: the drive's wear. 0: it was measured before
};

struct ProbeOptions {
  SustainedRateOptions sustained;  // per direction, and for both at once
  // Written with incompressible bytes; half of what is free at most. Large, since a cache of the
  // host need not write what is written once more soon after.
  int64_t file_bytes = int64_t{4} << 30;
  std::function<void(const std::string&)> progress;  // one line per phase; may be empty
};

// At the engine's own request size and depth: what the drive keeps up, not what its caches take at
// first. Leaves no file. Fails as open_ssd_store does.
Result<DriveProbe> probe_directory(const std::filesystem::path& directory,
                                   const ProbeOptions& options);

// The cache under `cache_directory`: an absent or unreadable entry is std::nullopt, never an error.
std::optional<DriveProbe> load_cached_probe(const std::filesystem::path& cache_directory,
                                            const std::filesystem::path& directory);
Status save_cached_probe(const std::filesystem::path& cache_directory, const DriveProbe& probe);

// The cache's entry; where there is none the drive is measured, and the cache has one from then on.
// One process at a time measures, and the others wait for it: ranks that start together would each
// find their part of the drive alone.
Result<DriveProbe> cached_or_measured(const std::filesystem::path& cache_directory,
                                      const std::filesystem::path& directory,
                                      const ProbeOptions& options);

}  // namespace teraio::probe
