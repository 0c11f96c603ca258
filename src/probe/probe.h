// Measures the drives of directories, for a hardware file. Any thread.
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
  std::string identity;  // the cache's key: model, serial, firmware, mount and engine settings
  std::string name;
  int64_t capacity_bytes = 0;  // free at the time of the probe
  int64_t read_bytes_per_second = 0;
  int64_t write_bytes_per_second = 0;
  double duplex = 1.0;  // from reads and writes at the same time: 1 (shared) to 2
  int64_t request_latency_ns = 0;
  int64_t written_bytes = 0;  // by the measurement, as wear of the drive; 0 if cached
};

struct ProbeOptions {
  SustainedRateOptions sustained;  // per direction, and for both together
  // The size of the test file, which is written with incompressible bytes; at most half of the free
  // space. A large file matters, because a host's cache need not write bytes that are soon
  // overwritten.
  int64_t file_bytes = int64_t{4} << 30;
  // Called once per phase with a line; may be empty.
  std::function<void(const std::string&)> progress;
  // Asked about every 100 ms whether the measurement, or the wait for another process's, shall end
  // early, with kInterrupted. May be empty.
  std::function<bool()> is_interrupted;
};

// Measures the drive's sustained rates at the engine's own request size and depth. Leaves no file.
// Fails like open_ssd_store(), or if a transfer fails.
Result<DriveProbe> probe_directory(const std::filesystem::path& directory,
                                   const ProbeOptions& options);

// Reads the entry under `cache_directory`. Returns nullopt if it is absent or unreadable.
std::optional<DriveProbe> load_cached_probe(const std::filesystem::path& cache_directory,
                                            const std::filesystem::path& directory);
Status save_cached_probe(const std::filesystem::path& cache_directory, const DriveProbe& probe);

// Returns the cached entry, or measures the drive and caches the result. One process at a time
// measures while the others wait, because ranks that start together would each measure only their
// part of the drive.
Result<DriveProbe> cached_or_measured(const std::filesystem::path& cache_directory,
                                      const std::filesystem::path& directory,
                                      const ProbeOptions& options);

}  // namespace teraio::probe
