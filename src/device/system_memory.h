// SystemMemory: the NUMA nodes and huge pages of a machine, and how much memory there is.
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
  std::vector<int32_t> numa_nodes;  // nodes with memory; empty if the system does not report them
  std::string transparent_huge_pages;    // "always", "madvise" or "never"; empty if unsupported
  int64_t free_reserved_huge_pages = 0;  // of kHugePageBytes, reserved by the administrator
};

// Values that cannot be read stay empty or 0.
SystemMemory read_system_memory(const std::filesystem::path& sysfs);

// Returns how much memory this process can use: what the machine has, or less where the process's
// control group (of either version) or a group above it has a limit, as in a container. `root` is
// "/", or a copy of its proc and sys in tests.
int64_t usable_memory_bytes(const std::filesystem::path& root);

// Returns how much more memory this process can take before the system has none left: what the
// kernel estimates, with its swap space, or less where a control group's limit is nearer. Groups
// give up their page cache. `root` as above.
int64_t available_memory_bytes(const std::filesystem::path& root);

// Returns the node for memory between a drive and a device: the node nearest to the device, because
// it copies all of that memory, or the drive's node if the device's is unknown (-1). Returns
// nullopt if there is only one node, if neither is known, or if that node has no memory.
std::optional<int32_t> nearest_node(const SystemMemory& memory, int32_t device_node,
                                    int32_t drive_node);

// Makes the system take the range's pages from `node` when they are first used, or from other nodes
// once it is full. The range consists of whole pages. A failure changes nothing.
Status prefer_numa_node(std::byte* memory, int64_t size_bytes, int32_t node);

}  // namespace teraio::device
