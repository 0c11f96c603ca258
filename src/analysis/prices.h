// Prices: the price of a machine, from a file (docs/formats.md), and the cost of a token on it.
// Value types and pure functions; any thread may call them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/status.h"
#include "hardware/hardware.h"
#include "simulate/run.h"

namespace teraio::analysis {

struct Prices {
  std::string name;
  std::string source;  // where the prices are from
  std::string currency;
  int64_t device_count = 1;             // of the server
  double server = 0;                    // with its devices and server_memory_bytes, without drives
  int64_t server_memory_bytes = 0;      // host memory that this price includes
  double host_memory_per_gib = 0;       // for memory beyond that
  double drive = 0;                     // per drive
  std::optional<double> service_years;  // over which the server is written off

  bool operator==(const Prices&) const = default;
};

struct Cost {
  double price = 0;                         // of the server, its memory and its drives
  std::optional<double> tokens_per_second;  // of the server
  // Absent without service_years. Drives that wear out sooner are replaced.
  std::optional<double> per_million_tokens;

  bool operator==(const Cost&) const = default;
};

// A failure names the file, the field and what was expected.
Result<Prices> read_prices(const std::filesystem::path& path);

// Returns the cost of a server whose devices each have `host_memory_bytes` and the drives of
// `hardware`, and train as `run` predicts. `tokens_per_step`: the tokens of the whole server in one
// iteration.
Cost cost_of(const Prices& prices, const hardware::Hardware& hardware, int64_t host_memory_bytes,
             const simulate::Run& run, std::optional<int64_t> tokens_per_step);

// Returns the years of iterations without a pause until the first drive reaches its rated writes;
// nullopt when no drive has a rating or nothing is written.
std::optional<double> drive_life_years(const hardware::Hardware& hardware,
                                       int64_t ssd_bytes_written, int64_t step_ns);

}  // namespace teraio::analysis
