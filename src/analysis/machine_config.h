// MachineConfig: hardware with limits on its use, and the parameters of it that a sweep varies.
//
// It describes the resources of one device: its share of the host memory and its own drives. Value
// types and pure functions; any thread may call them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"

namespace teraio::analysis {

struct MachineConfig {
  hardware::Hardware hardware;
  plan::Limits limits;
};

enum class SweepParameter : uint8_t {
  kDrives,        // their number; more than the file has are copies of its last drive
  kHostMemory,    // bytes
  kBandwidth,     // bytes per second that all drives read; writes scale in proportion
  kDeviceMemory,  // bytes
  kWriteBudget,   // bytes per iteration, to the drives
};

inline constexpr std::array<SweepParameter, 5> kSweepParameters = {
    SweepParameter::kDrives, SweepParameter::kHostMemory, SweepParameter::kBandwidth,
    SweepParameter::kDeviceMemory, SweepParameter::kWriteBudget};

// "drives", "host", "bandwidth", "device", "writes".
std::string_view to_string(SweepParameter parameter);

struct ParameterValue {
  SweepParameter parameter = SweepParameter::kDrives;
  int64_t value = 0;
  bool operator==(const ParameterValue&) const = default;
};

// Returns the value of a parameter; -1 when no write budget is set.
int64_t current_value(const MachineConfig& machine, SweepParameter parameter);

// Applies the values in the order of kSweepParameters. A value of host or device memory also
// removes the limit on it. Fails (kInvalidArgument) when no such machine can exist: more or faster
// drives when the hardware has no drive to copy, or host memory without rates.
Result<MachineConfig> with_values(MachineConfig machine, const std::vector<ParameterValue>& values);

}  // namespace teraio::analysis
