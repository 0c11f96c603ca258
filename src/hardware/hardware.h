// Hardware: the capacities and rates of a machine. A value type; its file format is in
// docs/formats.md. Any thread may call these functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/rates.h"
#include "base/status.h"

namespace teraio::hardware {

// Converts a rate to bytes per nanosecond, for models of time.
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
  // With concurrent reads at rate r and writes at rate w: r / read rate + w / write rate <= duplex.
  // 1 means that both directions share the medium, 2 that they are independent.
  double duplex = 1.0;
  std::optional<int64_t> rated_bytes_written;  // the endurance rating (TBW)
  bool operator==(const Drive&) const = default;
};

struct Hardware {
  std::string name;
  int64_t device_memory_bytes = 0;
  Rates device_link;  // all transfers of one direction share it; full duplex
  HostTier host;
  std::vector<Drive> drives;  // a tensor on the ssd tier is striped over all of them
  int64_t request_latency_ns = 0;

  bool operator==(const Hardware&) const = default;
};

// The ssd tier as a whole: the sums of the rates and capacities of its drives, and the mean of
// their duplex values, weighted by rate (1 without drives).
Rates ssd_rates(const Hardware& hardware);
double ssd_duplex(const Hardware& hardware);
int64_t ssd_capacity_bytes(const Hardware& hardware);

// Returns how many times `bytes` can be written to the ssd tier until the first drive reaches its
// rated writes. Striping gives each drive a share in proportion to its write rate. Nullopt when no
// drive has a rating or `bytes` is 0.
std::optional<double> writes_until_worn(const Hardware& hardware, int64_t bytes);

// Read, write and check hardware files. A failure names the file, the field and what was expected.
// write_hardware() replaces the file atomically.
Result<Hardware> read_hardware(const std::filesystem::path& path);
Status write_hardware(const Hardware& hardware, const std::filesystem::path& path);
Status validate(const Hardware& hardware);

}  // namespace teraio::hardware
