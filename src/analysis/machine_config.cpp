#include "analysis/machine_config.h"

#include <fmt/format.h>

#include <algorithm>

namespace teraio::analysis {
namespace {

Status impossible(std::string_view why) {
  return Status(ErrorCode::kInvalidArgument, std::string(why));
}

Status set_drives(hardware::Hardware& hardware, int64_t count) {
  std::vector<hardware::Drive>& drives = hardware.drives;
  if (drives.empty() && count > 0)
    return impossible("drives: the hardware file has none that could be copied");
  while (static_cast<int64_t>(drives.size()) < count) {
    drives.push_back(drives.back());
    drives.back().name = fmt::format("drive {} (a copy)", drives.size());
  }
  drives.resize(static_cast<size_t>(count));
  return Status();
}

int64_t scaled(int64_t rate, double factor) {
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(rate) * factor));
}

Status set_bandwidth(hardware::Hardware& hardware, int64_t read_bytes_per_second) {
  const int64_t now = ssd_rates(hardware).read_bytes_per_second;
  if (now <= 0) return impossible("bandwidth: the hardware file has no drives to make faster");
  const double factor = static_cast<double>(read_bytes_per_second) / static_cast<double>(now);
  for (hardware::Drive& drive : hardware.drives) {
    drive.rates.read_bytes_per_second = scaled(drive.rates.read_bytes_per_second, factor);
    drive.rates.write_bytes_per_second = scaled(drive.rates.write_bytes_per_second, factor);
  }
  return Status();
}

Status apply(const ParameterValue& value, MachineConfig& machine) {
  switch (value.parameter) {
    case SweepParameter::kDrives:
      return set_drives(machine.hardware, value.value);
    case SweepParameter::kHostMemory:
      machine.hardware.host.capacity_bytes = value.value;
      machine.limits.host_limit_bytes.reset();
      return Status();
    case SweepParameter::kBandwidth:
      return set_bandwidth(machine.hardware, value.value);
    case SweepParameter::kDeviceMemory:
      machine.hardware.device_memory_bytes = value.value;
      machine.limits.device_budget_bytes.reset();
      return Status();
    case SweepParameter::kWriteBudget:
      machine.limits.write_budget_bytes = value.value;
      return Status();
  }
  return Status();
}

}  // namespace

std::string_view to_string(SweepParameter parameter) {
  switch (parameter) {
    case SweepParameter::kDrives:
      return "drives";
    case SweepParameter::kHostMemory:
      return "host";
    case SweepParameter::kBandwidth:
      return "bandwidth";
    case SweepParameter::kDeviceMemory:
      return "device";
    case SweepParameter::kWriteBudget:
      return "writes";
  }
  return "";
}

int64_t current_value(const MachineConfig& machine, SweepParameter parameter) {
  const hardware::Hardware& hardware = machine.hardware;
  switch (parameter) {
    case SweepParameter::kDrives:
      return static_cast<int64_t>(hardware.drives.size());
    case SweepParameter::kHostMemory:
      return machine.limits.host_limit_bytes.value_or(hardware.host.capacity_bytes);
    case SweepParameter::kBandwidth:
      return ssd_rates(hardware).read_bytes_per_second;
    case SweepParameter::kDeviceMemory:
      return machine.limits.device_budget_bytes.value_or(hardware.device_memory_bytes);
    case SweepParameter::kWriteBudget:
      return machine.limits.write_budget_bytes.value_or(-1);
  }
  return 0;
}

Result<MachineConfig> with_values(MachineConfig machine,
                                  const std::vector<ParameterValue>& values) {
  for (SweepParameter parameter : kSweepParameters)
    for (const ParameterValue& value : values)
      if (value.parameter == parameter) {
        TERAIO_RETURN_IF_ERROR(apply(value, machine));
      }
  TERAIO_RETURN_IF_ERROR(validate(machine.hardware).with_context(machine.hardware.name));
  return machine;
}

}  // namespace teraio::analysis
