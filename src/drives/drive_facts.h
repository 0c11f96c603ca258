// DriveFacts: what /sys tells about a drive and the GPUs of a machine.
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

  // Slower or narrower than both ends could do.
  bool is_reduced() const { return speed != speed_max || width != width_max; }
};

struct Temperature {
  double celsius = 0;
  std::optional<double> limit_celsius;  // where the drive begins to slow down
};

struct DriveFacts {
  std::string name;  // "nvme0n1", "md0"
  std::string kind;  // "NVMe", "virtio", "SCSI or SATA", "md raid0", "device mapper", "loop", ...
  std::string model;
  std::string serial;
  std::string firmware;
  int64_t size_bytes = 0;
  std::string pci_address;         // "0000:01:00.0"; empty: not on PCI
  std::filesystem::path pci_path;  // in /sys/devices, from the root complex on
  PciLink link;
  int32_t numa_node = -1;  // -1: unknown, or the machine has one
  std::optional<Temperature> temperature;
  int64_t bytes_read = 0;  // by everybody since the system started
  int64_t bytes_written = 0;
  std::vector<DriveFacts> members;  // of a RAID or a mapping
};

struct GpuFacts {
  std::string pci_address;
  std::filesystem::path pci_path;
  int32_t numa_node = -1;
};

// `folder` is the block device's in /sys. What is not there stays empty.
DriveFacts read_drive_facts(const std::filesystem::path& folder);

// Of the drives behind it, the first that has one.
std::optional<Temperature> read_temperature(const std::filesystem::path& folder);

// NVIDIA's display and compute devices, by address.
std::vector<GpuFacts> find_gpus(const std::filesystem::path& sysfs);

// How far apart two PCI devices are: "same PCIe switch", "same root complex", "same NUMA node",
// "other NUMA node", "unknown".
std::string describe_distance(const DriveFacts& drive, const GpuFacts& gpu);

}  // namespace teraio::drives
