// Measures the drives of directories, for a hardware file. Any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/rates.h"
#include "base/status.h"
#include "probe/sustained_rate.h"

namespace teraio::probe {

// Where the rates of a drive come from.
enum class RatesOrigin : uint8_t {
  kShortProbe,     // an estimate: what was written may have fitted into the drive's caches
  kThoroughProbe,  // the rates that the drive kept
  kRuns,           // the rates of a drive under load in training runs
};

struct DriveProbe {
  std::filesystem::path directory;
  std::string identity;  // the cache's key: model, serial, firmware, mount and engine settings
  std::string name;
  int64_t capacity_bytes = 0;  // free at the time of the probe
  Rates rates;
  double duplex = 1.0;  // from reads and writes at the same time: 1 (shared) to 2
  int64_t request_latency_ns = 0;
  RatesOrigin origin = RatesOrigin::kThoroughProbe;
  Rates peak_rates;           // the highest that were measured; 0 if unknown
  int64_t written_bytes = 0;  // by the measurement, as wear of the drive; 0 if cached
};

// The two measurements. The short one is for the first use of a drive, which begins to train soon
// and does not wear it: runs measure the drive further. The thorough one goes on until caches are
// full.
struct ProbeOptions {
  RatesOrigin origin = RatesOrigin::kShortProbe;
  SustainedRateOptions sustained = {.interval_ns = 100'000'000, .longest_ns = 5'000'000'000};
  // The size of the test file, which is written with incompressible bytes; at most half of the free
  // space. A large file matters, because a host's cache need not write bytes that are soon
  // overwritten.
  int64_t file_bytes = int64_t{512} << 20;
  int64_t most_written_bytes = 2'000'000'000;  // by all of it, the file included
  // The part of a measured rate that plans may count on. Runs go on with the estimate while the
  // drive is at least three quarters as fast, so that 3/4 suits drives of 9/16 of their first rate
  // and more.
  double reliable_share = 0.75;
  // Called once per phase with a line; may be empty.
  std::function<void(const std::string&)> progress;
  // Called after each transfer with the share of the measurement that is done; may be empty.
  std::function<void(double)> on_share;
  // Asked about every 100 ms whether the measurement, or the wait for another process's, shall end
  // early, with kInterrupted. May be empty.
  std::function<bool()> is_interrupted;
};

ProbeOptions thorough_probe();

// Measures the drive's sustained rates at the engine's own request size and depth, or estimates
// them. Says first which drive it is, what is written to it at most, and how long that takes.
// Leaves no file. Fails like open_ssd_store(), or if a transfer fails.
Result<DriveProbe> probe_directory(const std::filesystem::path& directory,
                                   const ProbeOptions& options);

// Returns what is known without a measurement: all but rates, duplex and latency.
Result<DriveProbe> describe_drive(const std::filesystem::path& directory);

}  // namespace teraio::probe
