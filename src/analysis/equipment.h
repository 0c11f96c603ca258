// Equipment: hardware with limits on its use, and changes of one quantity each.
//
// It is what one device has: its share of the host's memory, and its own drives.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"

namespace teraio::analysis {

struct Equipment {
  hardware::Hardware hardware;
  plan::Limits limits;
};

enum class Quantity : uint8_t {
  kDrives,        // how many; beyond those of the file, copies of its last one
  kHostMemory,    // bytes
  kBandwidth,     // bytes per second that all drives read; their writes change in proportion
  kDeviceMemory,  // bytes
  kWriteBudget,   // bytes per iteration, to the drives
};

inline constexpr std::array<Quantity, 5> kQuantities = {
    Quantity::kDrives, Quantity::kHostMemory, Quantity::kBandwidth, Quantity::kDeviceMemory,
    Quantity::kWriteBudget};

// "drives", "host", "bandwidth", "device", "writes".
std::string_view to_string(Quantity quantity);

struct Change {
  Quantity quantity = Quantity::kDrives;
  int64_t value = 0;
  bool operator==(const Change&) const = default;
};

// What the equipment has of a quantity now. A write budget that is not set counts as -1.
int64_t present_value(const Equipment& equipment, Quantity quantity);

// Applies the changes in the order of kQuantities; a limit on a quantity that changes is lifted.
// Fails (kInvalidArgument) when there can be no such equipment: more drives or faster ones where
// there is none to copy, host memory without rates.
Result<Equipment> changed(Equipment equipment, const std::vector<Change>& changes);

}  // namespace teraio::analysis
