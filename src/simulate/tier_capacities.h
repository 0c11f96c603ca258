// TierCapacities: the bytes that each tier can hold under limits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "hardware/hardware.h"
#include "plan/plan.h"

namespace teraio::simulate {

// A value type.
class TierCapacities {
 public:
  // The host tier holds the smaller of its capacity and its limit, the ssd tier the sum of its
  // drives. A tier without both a read and a write rate holds nothing.
  TierCapacities(const hardware::Hardware& hardware, const plan::Limits& limits);

  // Returns 0 for a tier that does not exist.
  int64_t operator[](plan::Tier tier) const { return bytes_[static_cast<size_t>(tier)]; }

 private:
  std::array<int64_t, 2> bytes_{};
};

}  // namespace teraio::simulate
