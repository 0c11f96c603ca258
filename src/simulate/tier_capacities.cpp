#include "simulate/tier_capacities.h"

#include <algorithm>

namespace teraio::simulate {
namespace {

int64_t usable(int64_t capacity_bytes, const Rates& rates) {
  const bool moves = rates.read_bytes_per_second > 0 && rates.write_bytes_per_second > 0;
  return moves ? capacity_bytes : 0;
}

}  // namespace

TierCapacities::TierCapacities(const hardware::Hardware& hardware, const plan::Limits& limits) {
  const int64_t host_bytes = std::min(
      limits.host_limit_bytes.value_or(hardware.host.capacity_bytes), hardware.host.capacity_bytes);
  bytes_[static_cast<size_t>(plan::Tier::kHost)] = usable(host_bytes, hardware.host.rates);
  bytes_[static_cast<size_t>(plan::Tier::kSsd)] =
      usable(ssd_capacity_bytes(hardware), ssd_rates(hardware));
}

}  // namespace teraio::simulate
