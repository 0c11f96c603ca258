#include "device/pci_address.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string>

namespace teraio::device {

int32_t numa_node_of_pci_device(std::string_view pci_address, const std::filesystem::path& sysfs) {
  std::string name(pci_address);  // CUDA writes capital letters, sysfs does not
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  std::ifstream attribute(sysfs / "bus/pci/devices" / name / "numa_node");
  int32_t node = -1;
  return attribute >> node ? node : -1;
}

}  // namespace teraio::device
