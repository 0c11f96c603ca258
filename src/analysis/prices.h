// Prices: what a machine costs, from a file (docs/formats.md); and with it what a token costs.
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
  std::string source;  // where they are from
  std::string currency;
  int64_t device_count = 1;             // that the server has
  double server = 0;                    // with its devices and the memory below, without drives
  int64_t server_memory_bytes = 0;      // host memory that is in that price
  double host_memory_per_gib = 0;       // beyond it
  double drive = 0;                     // each
  std::optional<double> service_years;  // over which the server is written off

  bool operator==(const Prices&) const = default;
};

struct Cost {
  double price = 0;                         // of the server, its memory and its drives
  std::optional<double> tokens_per_second;  // of the server
  // Needs service_years. Drives that wear out sooner are bought again.
  std::optional<double> per_million_tokens;

  bool operator==(const Cost&) const = default;
};

Result<Prices> read_prices(const std::filesystem::path& path);

// Of a server whose devices each have `host_memory_bytes` and the drives of `hardware`, and run as
// `run` says. `tokens_per_step`: what the whole server trains in one iteration.
Cost cost_of(const Prices& prices, const hardware::Hardware& hardware, int64_t host_memory_bytes,
             const simulate::Run& run, std::optional<int64_t> tokens_per_step);

// Years of iterations without a pause until the first drive reaches its rated bytes; nothing when
// none is rated or nothing is written.
std::optional<double> drive_life_years(const hardware::Hardware& hardware,
                                       int64_t ssd_bytes_written, int64_t step_ns);

}  // namespace teraio::analysis
