// SystemMemory: what a machine's memory offers beside plain pages, NUMA nodes and huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace teraio::device {

inline constexpr int64_t kHugePageBytes = int64_t{2} << 20;

struct SystemMemory {
  std::vector<int32_t> numa_nodes;       // those with memory; empty: the system does not tell
  std::string transparent_huge_pages;    // "always", "madvise" or "never"; empty: there are none
  int64_t free_reserved_huge_pages = 0;  // of kHugePageBytes, set aside by the administrator
};

SystemMemory read_system_memory(const std::filesystem::path& sysfs);

// Where memory between a drive and a device belongs: beside the device, which copies all of it,
// else beside the drive. nullopt: there is no choice, or neither place is known (-1).
std::optional<int32_t> nearest_node(const SystemMemory& memory, int32_t device_node,
                                    int32_t drive_node);

// The range's pages come from `node` from their first use on, as long as it has room, then from
// others. Whole pages. A failure changes nothing.
Status prefer_numa_node(std::byte* memory, int64_t size_bytes, int32_t node);

}  // namespace teraio::device
