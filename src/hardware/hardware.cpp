#include "hardware/hardware.h"

#include <algorithm>

namespace teraio::hardware {

Rates ssd_rates(const Hardware& hardware) {
  Rates sum;
  for (const Drive& drive : hardware.drives) {
    sum.read_bytes_per_second += drive.rates.read_bytes_per_second;
    sum.write_bytes_per_second += drive.rates.write_bytes_per_second;
  }
  return sum;
}

double ssd_duplex(const Hardware& hardware) {
  double weighted = 0;
  double total = 0;
  for (const Drive& drive : hardware.drives) {
    const double weight = static_cast<double>(drive.rates.read_bytes_per_second) +
                          static_cast<double>(drive.rates.write_bytes_per_second);
    weighted += drive.duplex * weight;
    total += weight;
  }
  return total > 0 ? weighted / total : 1.0;
}

int64_t ssd_capacity_bytes(const Hardware& hardware) {
  int64_t sum = 0;
  for (const Drive& drive : hardware.drives) sum += drive.capacity_bytes;
  return sum;
}

std::optional<double> writes_until_worn(const Hardware& hardware, int64_t bytes) {
  const auto tier_rate = static_cast<double>(ssd_rates(hardware).write_bytes_per_second);
  std::optional<double> fewest;
  for (const Drive& drive : hardware.drives) {
    const double part = static_cast<double>(drive.rates.write_bytes_per_second) / tier_rate;
    if (!drive.rated_bytes_written || bytes <= 0 || part <= 0) continue;
    const double times =
        static_cast<double>(*drive.rated_bytes_written) / (part * static_cast<double>(bytes));
    fewest = std::min(fewest.value_or(times), times);
  }
  return fewest;
}

}  // namespace teraio::hardware
