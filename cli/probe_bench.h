// `teraio probe --bench`: measures what the engine moves to and from a set of drives, or between a
// device and its tiers, and what that costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace teraio::cli {

struct BenchOptions {
  std::vector<std::string> directories;  // on drives; at least one
  std::string device;                    // "cpu", "cuda" or "cuda:1"; empty: the drives alone
  int64_t size_bytes = 0;                // of each tier that transfers use
  int64_t duration_ns = 0;               // of each measurement
  bool json = false;
};

// Measures and prints a table, or JSON for scripts. Leaves no file. Calls fail() when a measurement
// fails.
void run_bench(const BenchOptions& options);

}  // namespace teraio::cli
