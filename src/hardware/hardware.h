// Hardware: what a machine can move and hold. A value; the file form is docs/formats.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace teraio::hardware {

// In bytes per second. Reads move bytes to the device, writes from it.
struct Rates {
  int64_t read_bytes_per_second = 0;
  int64_t write_bytes_per_second = 0;
  bool operator==(const Rates&) const = default;
};

// A rate in bytes per nanosecond, for models of time.
inline double bytes_per_ns(int64_t bytes_per_second) {
  return static_cast<double>(bytes_per_second) * 1e-9;
}

struct HostTier {
  int64_t capacity_bytes = 0;
  Rates rates;
  bool operator==(const HostTier&) const = default;
};

struct Drive {
  std::string name;
  int64_t capacity_bytes = 0;
  Rates rates;
  // Reads and writes at once obey r/R + w/W <= duplex: 1 = shared medium, 2 = independent.
  double duplex = 1.0;
  std::optional<int64_t> rated_bytes_written;  // the drive's TBW
  bool operator==(const Drive&) const = default;
};

struct Hardware {
  std::string name;
  int64_t device_memory_bytes = 0;
  Rates device_link;  // shared by all traffic of one direction; full duplex
  HostTier host;
  std::vector<Drive> drives;  // a tensor on the ssd tier is striped over all of them
  int64_t request_latency_ns = 0;

  bool operator==(const Hardware&) const = default;
};

// Sums over the drives: the rates and room of the ssd tier. `duplex` is that of the slowest
// pairing: the rate-weighted mean of the drives'.
Rates ssd_rates(const Hardware& hardware);
double ssd_duplex(const Hardware& hardware);
int64_t ssd_capacity_bytes(const Hardware& hardware);

// How often `bytes` can be written to the ssd tier until the first drive reaches its rated bytes:
// each takes its part of the tier's write rate. Nothing when no drive is rated or nothing is
// written.
std::optional<double> writes_until_worn(const Hardware& hardware, int64_t bytes);

// Same rules as for traces: a failure names file, field and what was expected.
Result<Hardware> read_hardware(const std::filesystem::path& path);
Status write_hardware(const Hardware& hardware, const std::filesystem::path& path);
Status validate(const Hardware& hardware);

}  // namespace teraio::hardware
