#include "drives/drive_facts.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>

#include "base/sysfs.h"

namespace teraio::drives {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSectorBytes = 512;  // unit of /sys, whatever the drive's sectors are

std::vector<fs::path> children(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    found.push_back(it->path());
  std::sort(found.begin(), found.end());
  return found;
}

bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

// The folder with model, serial number and temperature. With NVMe multipath it is one level deeper.
fs::path controller_folder(const fs::path& folder) {
  std::error_code error;
  const fs::path device = fs::canonical(folder / "device", error);
  if (error) return {};
  if (!starts_with(device.filename().string(), "nvme-subsys")) return device;
  static const std::regex kController("nvme[0-9]+");
  for (const fs::path& child : children(device))
    if (std::regex_match(child.filename().string(), kController)) return fs::canonical(child);
  return device;
}

// The folder of the last PCI device on the path to `folder`; empty if there is none.
fs::path pci_folder(const fs::path& folder) {
  static const std::regex kAddress("[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7]");
  fs::path path;
  fs::path found;
  for (const fs::path& part : folder) {
    path /= part;
    if (std::regex_match(part.string(), kAddress)) found = path;
  }
  return found;
}

// "pci0000:00/0000:00:01.1/0000:01:00.0"
fs::path from_root_complex(const fs::path& folder) {
  fs::path path;
  for (const fs::path& part : folder)
    if (!path.empty() || starts_with(part.string(), "pci")) path /= part;
  return path;
}

int32_t numa_node(const fs::path& pci) {
  return static_cast<int32_t>(sysfs_number(pci / "numa_node").value_or(-1));
}

PciLink read_link(const fs::path& pci) {
  return {sysfs_text(pci / "current_link_speed"),
          static_cast<int32_t>(sysfs_number(pci / "current_link_width").value_or(0)),
          sysfs_text(pci / "max_link_speed"),
          static_cast<int32_t>(sysfs_number(pci / "max_link_width").value_or(0))};
}

std::string kind_of(const fs::path& folder, const std::string& name) {
  if (fs::exists(folder / "md")) return "md " + sysfs_text(folder / "md/level");
  if (fs::exists(folder / "dm")) return "device mapper";
  if (starts_with(name, "nvme")) return "NVMe";
  if (starts_with(name, "vd")) return "virtio";
  if (starts_with(name, "sd")) return "SCSI or SATA";
  if (starts_with(name, "loop")) return "loop";
  return "unknown";
}

// Looks for hwmon0, hwmon1, ... in the controller's folder and in its subfolder hwmon, because
// kernels differ.
std::optional<Temperature> controller_temperature(const fs::path& controller) {
  std::vector<fs::path> folders = children(controller);
  for (const fs::path& folder : children(controller / "hwmon")) folders.push_back(folder);
  for (const fs::path& folder : folders) {
    if (!starts_with(folder.filename().string(), "hwmon")) continue;
    const auto millidegrees = sysfs_number(folder / "temp1_input");
    if (!millidegrees) continue;
    Temperature temperature{static_cast<double>(*millidegrees) / 1000, std::nullopt};
    const auto limit = sysfs_number(folder / "temp1_max");
    if (limit) temperature.limit_celsius = static_cast<double>(*limit) / 1000;
    return temperature;
  }
  return std::nullopt;
}

// Fields of /sys/block/X/stat: reads, merged, sectors read, ms, writes, merged, sectors written.
void read_traffic(const fs::path& folder, DriveFacts& facts) {
  std::ifstream file(folder / "stat");
  const std::vector<int64_t> fields{std::istream_iterator<int64_t>(file), {}};
  if (fields.size() < 7) return;
  facts.bytes_read = fields[2] * kSectorBytes;
  facts.bytes_written = fields[6] * kSectorBytes;
}

// The drive of a member, which may be a partition.
fs::path whole_drive(const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (error) return folder;
  return fs::exists(real / "partition", error) ? real.parent_path() : real;
}

std::string first_of(const std::string& first, const std::string& second) {
  return first.empty() ? second : first;
}

}  // namespace

DriveFacts read_drive_facts(const fs::path& folder) {
  DriveFacts facts;
  facts.name = folder.filename().string();
  facts.kind = kind_of(folder, facts.name);
  facts.size_bytes = sysfs_number(folder / "size").value_or(0) * kSectorBytes;
  read_traffic(folder, facts);
  const fs::path controller = controller_folder(folder);
  facts.model = sysfs_text(controller / "model");
  facts.serial = first_of(sysfs_text(controller / "serial"), sysfs_text(folder / "serial"));
  facts.firmware = sysfs_text(controller / "firmware_rev");
  facts.temperature = controller_temperature(controller);
  const fs::path pci = pci_folder(controller.empty() ? folder : controller);
  if (!pci.empty()) {
    facts.pci_address = pci.filename().string();
    facts.pci_path = from_root_complex(pci);
    facts.link = read_link(pci);
    facts.numa_node = numa_node(pci);
  }
  for (const fs::path& member : children(folder / "slaves"))
    facts.members.push_back(read_drive_facts(whole_drive(member)));
  return facts;
}

std::optional<Temperature> read_temperature(const fs::path& folder) {
  if (auto own = controller_temperature(controller_folder(folder))) return own;
  for (const fs::path& member : children(folder / "slaves"))
    if (auto temperature = read_temperature(whole_drive(member))) return temperature;
  return std::nullopt;
}

std::vector<GpuFacts> find_gpus(const fs::path& sysfs) {
  std::vector<GpuFacts> gpus;
  for (const fs::path& link : children(sysfs / "bus/pci/devices")) {
    const std::string kind = sysfs_text(link / "class");  // 0x0300: VGA, 0x0302: 3D controller
    const bool is_display = starts_with(kind, "0x0300") || starts_with(kind, "0x0302");
    if (!is_display || sysfs_text(link / "vendor") != "0x10de") continue;
    const fs::path folder = fs::canonical(link);
    gpus.push_back({folder.filename().string(), from_root_complex(folder), numa_node(folder)});
  }
  return gpus;
}

std::string describe_distance(const DriveFacts& drive, const GpuFacts& gpu) {
  if (drive.pci_path.empty() || gpu.pci_path.empty()) return "unknown";
  const auto [in_drive, in_gpu] = std::mismatch(drive.pci_path.begin(), drive.pci_path.end(),
                                                gpu.pci_path.begin(), gpu.pci_path.end());
  const auto shared = std::distance(drive.pci_path.begin(), in_drive);
  // The first part is the root complex, the second a port of it. Two devices below one port imply a
  // switch.
  if (shared >= 2) return "same PCIe switch";
  if (shared == 1) return "same root complex";
  if (drive.numa_node < 0 || gpu.numa_node < 0) return "unknown";
  return drive.numa_node == gpu.numa_node ? "same NUMA node" : "other NUMA node";
}

}  // namespace teraio::drives
