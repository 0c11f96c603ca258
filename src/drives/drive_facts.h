// DriveFacts: what /sys reports about a drive and the GPUs of a machine. Any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace teraio::drives {

struct PciLink {
  std::string speed;  // "16.0 GT/s PCIe"; empty: unknown
  int32_t width = 0;
  std::string speed_max;
  int32_t width_max = 0;

  // Slower or narrower than the device supports.
  bool is_reduced() const { return speed != speed_max || width != width_max; }
};

struct Temperature {
  double celsius = 0;
  std::optional<double> limit_celsius;  // where the drive starts to slow down
};

struct DriveFacts {
  std::string name;  // "nvme0n1", "md0"
  std::string kind;  // "NVMe", "virtio", "SCSI or SATA", "md raid0", "device mapper", "loop", ...
  std::string model;
  std::string serial;
  std::string firmware;
  int64_t size_bytes = 0;
  std::string pci_address;         // "0000:01:00.0"; empty: not on PCI
  std::filesystem::path pci_path;  // below /sys/devices, from the root complex
  PciLink link;
  int32_t numa_node = -1;  // -1: unknown, or the machine has only one
  std::optional<Temperature> temperature;
  int64_t bytes_read = 0;  // by all processes since the system started
  int64_t bytes_written = 0;
  std::vector<DriveFacts> members;  // the drives of a RAID or a mapping
};

struct GpuFacts {
  std::string pci_address;
  std::filesystem::path pci_path;
  int32_t numa_node = -1;
};

// Reads the facts of the block device with this folder in /sys. Fields that the system does not
// report stay empty.
DriveFacts read_drive_facts(const std::filesystem::path& folder);

// The temperature of the drive or, if it reports none, of its first member that does.
std::optional<Temperature> read_temperature(const std::filesystem::path& folder);

// Returns NVIDIA's display and compute devices, by address.
std::vector<GpuFacts> find_gpus(const std::filesystem::path& sysfs);

// The distance between two PCI devices: "same PCIe switch", "same root complex", "same NUMA node",
// "other NUMA node" or "unknown".
std::string describe_distance(const DriveFacts& drive, const GpuFacts& gpu);

}  // namespace teraio::drives
