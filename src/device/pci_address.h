// What the system knows of a device by its place on the PCI bus.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace teraio::device {

// The NUMA node that the device at `pci_address` ("0000:3B:00.0", in either case) is nearest to;
// -1: the system does not tell, or there is no such device. `sysfs` is a parameter so that a
// captured tree can stand in for this machine's.
int32_t numa_node_of_pci_device(std::string_view pci_address,
                                const std::filesystem::path& sysfs = "/sys");

}  // namespace teraio::device
