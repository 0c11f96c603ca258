#include "analysis/equipment.h"

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

Status apply(const Change& change, Equipment& equipment) {
  switch (change.quantity) {
    case Quantity::kDrives:
      return set_drives(equipment.hardware, change.value);
    case Quantity::kHostMemory:
      equipment.hardware.host.capacity_bytes = change.value;
      equipment.limits.host_limit_bytes.reset();
      return Status();
    case Quantity::kBandwidth:
      return set_bandwidth(equipment.hardware, change.value);
    case Quantity::kDeviceMemory:
      equipment.hardware.device_memory_bytes = change.value;
      equipment.limits.device_budget_bytes.reset();
      return Status();
    case Quantity::kWriteBudget:
      equipment.limits.write_budget_bytes = change.value;
      return Status();
  }
  return Status();
}

}  // namespace

std::string_view to_string(Quantity quantity) {
  switch (quantity) {
    case Quantity::kDrives:
      return "drives";
    case Quantity::kHostMemory:
      return "host";
    case Quantity::kBandwidth:
      return "bandwidth";
    case Quantity::kDeviceMemory:
      return "device";
    case Quantity::kWriteBudget:
      return "writes";
  }
  return "";
}

int64_t present_value(const Equipment& equipment, Quantity quantity) {
  const hardware::Hardware& hardware = equipment.hardware;
  switch (quantity) {
    case Quantity::kDrives:
      return static_cast<int64_t>(hardware.drives.size());
    case Quantity::kHostMemory:
      return equipment.limits.host_limit_bytes.value_or(hardware.host.capacity_bytes);
    case Quantity::kBandwidth:
      return ssd_rates(hardware).read_bytes_per_second;
    case Quantity::kDeviceMemory:
      return equipment.limits.device_budget_bytes.value_or(hardware.device_memory_bytes);
    case Quantity::kWriteBudget:
      return equipment.limits.write_budget_bytes.value_or(-1);
  }
  return 0;
}

Result<Equipment> changed(Equipment equipment, const std::vector<Change>& changes) {
  for (Quantity quantity : kQuantities)
    for (const Change& change : changes)
      if (change.quantity == quantity) {
        TERAIO_RETURN_IF_ERROR(apply(change, equipment));
      }
  TERAIO_RETURN_IF_ERROR(validate(equipment.hardware).with_context(equipment.hardware.name));
  return equipment;
}

}  // namespace teraio::analysis
