// What the system knows about a device, by its address on the PCI bus.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace teraio::device {

// Returns the NUMA node nearest to the device at `pci_address` ("0000:3B:00.0", in either case), or
// -1 if the system does not report it or there is no such device. Tests pass a captured tree as
// `sysfs`.
int32_t numa_node_of_pci_device(std::string_view pci_address,
                                const std::filesystem::path& sysfs = "/sys");

}  // namespace teraio::device
