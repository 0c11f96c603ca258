// MachineConfig: hardware with limits on its use, and the parameters of it that a sweep varies.
//
// It describes what one device has: its share of the host's memory and its own drives. Values; pure
// functions that any thread may call.
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
  kDrives,        // how many; beyond those of the file, copies of its last one
  kHostMemory,    // bytes
  kBandwidth,     // bytes per second that all drives read; their writes change in proportion
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

// The current value of a parameter. A write budget that is not set counts as -1.
int64_t current_value(const MachineConfig& machine, SweepParameter parameter);

// Applies the values in the order of kSweepParameters; a limit on a parameter that values is
// lifted. Fails (kInvalidArgument) when there can be no such machine: more drives or faster ones
// where there is none to copy, host memory without rates.
Result<MachineConfig> with_values(MachineConfig machine, const std::vector<ParameterValue>& values);

}  // namespace teraio::analysis
