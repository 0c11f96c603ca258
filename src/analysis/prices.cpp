#include "analysis/prices.h"

#include <algorithm>

#include "base/json_file.h"
#include "base/units.h"

namespace teraio::analysis {
namespace {

constexpr double kYearSeconds = 365.25 * 24 * 3600;

double amount(const JsonNode& node) {
  const double number = node.number();
  if (number < 0) node.fail("expected a number that is not negative");
  return number;
}

double seconds(int64_t duration_ns) { return static_cast<double>(duration_ns) / 1e9; }

// In doubles, because a file may name any number of devices.
double memory_price(const Prices& prices, int64_t host_bytes_per_device) {
  const double all_bytes =
      static_cast<double>(prices.device_count) * static_cast<double>(host_bytes_per_device);
  const double more_bytes = all_bytes - static_cast<double>(prices.server_memory_bytes);
  return prices.host_memory_per_gib * std::max(more_bytes, 0.0) / static_cast<double>(kGiB);
}

}  // namespace

Result<Prices> read_prices(const std::filesystem::path& path) {
  JsonDocument document(path, "teraio-prices/1");
  const JsonNode& root = document.root();
  Prices prices;
  prices.name = root["name"].text();
  prices.source = root["source"].text();
  prices.currency = root["currency"].text();
  prices.device_count = root["devices"].positive_integer();
  prices.server = amount(root["server"]);
  prices.server_memory_bytes = root["server_memory_bytes"].non_negative_integer();
  prices.host_memory_per_gib = amount(root["host_memory_per_gib"]);
  prices.drive = amount(root["drive"]);
  if (const JsonNode years = root.find("service_years"); years.exists()) {
    prices.service_years = years.number();
    if (!(*prices.service_years > 0)) years.fail("expected a number of years above 0");
  }
  TERAIO_RETURN_IF_ERROR(document.status());
  return prices;
}

std::optional<double> drive_life_years(const hardware::Hardware& hardware,
                                       int64_t ssd_bytes_written, int64_t step_ns) {
  const std::optional<double> steps = writes_until_worn(hardware, ssd_bytes_written);
  if (!steps) return std::nullopt;
  return *steps * seconds(step_ns) / kYearSeconds;
}

Cost cost_of(const Prices& prices, const hardware::Hardware& hardware, int64_t host_memory_bytes,
             const simulate::Run& run, std::optional<int64_t> tokens_per_step) {
  const double server = prices.server + memory_price(prices, host_memory_bytes);
  const double drives = static_cast<double>(prices.device_count) *
                        static_cast<double>(hardware.drives.size()) * prices.drive;
  Cost cost;
  cost.price = server + drives;
  if (!tokens_per_step || run.step_ns <= 0) return cost;
  cost.tokens_per_second = static_cast<double>(*tokens_per_step) / seconds(run.step_ns);
  if (!prices.service_years) return cost;
  const double years = *prices.service_years;
  const double drive_years = std::min(
      years, drive_life_years(hardware, run.ssd_bytes_written, run.step_ns).value_or(years));
  const double per_second = (server / years + drives / drive_years) / kYearSeconds;
  cost.per_million_tokens = per_second / *cost.tokens_per_second * 1e6;
  return cost;
}

}  // namespace teraio::analysis
