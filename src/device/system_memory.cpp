#include "device/system_memory.h"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/sysfs.h"

namespace teraio::device {
namespace {

constexpr int32_t kNodesMax = 1024;
constexpr int32_t kBitsPerWord = sizeof(unsigned long) * CHAR_BIT;

// Parses a list such as "0-1,3".
std::vector<int32_t> parse_list(const std::string& text) {
  std::vector<int32_t> numbers;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    int32_t first = 0;
    int32_t last = 0;
    const int count = std::sscanf(range.c_str(), "%d-%d", &first, &last);
    if (count < 1) continue;
    if (count == 1) last = first;
    for (int32_t number = first; number <= last && number < kNodesMax; ++number)
      numbers.push_back(number);
  }
  return numbers;
}

// Returns the word in brackets: "madvise" for "always [madvise] never".
std::string chosen_word(const std::string& text) {
  const size_t begin = text.find('[');
  const size_t end = text.find(']');
  if (begin == std::string::npos || end == std::string::npos) return "";
  return text.substr(begin + 1, end - begin - 1);
}

// The least limit of the group at `path` and of those above it. `hierarchy` is where groups are
// mounted. A container may not see its own group: then its limit is that of the mounted root.
int64_t least_limit_bytes(const std::filesystem::path& hierarchy, std::filesystem::path path,
                          const char* attribute) {
  int64_t limit_bytes = std::numeric_limits<int64_t>::max();
  while (true) {
    const auto limit = sysfs_number(hierarchy / path.relative_path() / attribute);
    limit_bytes = std::min(limit_bytes, limit.value_or(limit_bytes));
    if (!path.has_relative_path()) return limit_bytes;
    path = path.parent_path();
  }
}

// Returns the number after `name` in a file of lines of names and numbers.
std::optional<int64_t> field(const std::filesystem::path& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string found;
    int64_t number = 0;
    if (words >> found >> number && found == name) return number;
  }
  return std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* cache[2];  // in memory.stat
};
constexpr GroupFiles kFirstVersion = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_active_file", "total_inactive_file"}};
constexpr GroupFiles kSecondVersion = {
    "memory.max", "memory.current", {"active_file", "inactive_file"}};

// What the group may take besides what it uses; nullopt if it has no limit.
std::optional<int64_t> room_of_group(const std::filesystem::path& group, const GroupFiles& files) {
  const auto limit_bytes = sysfs_number(group / files.limit);
  const auto used_bytes = sysfs_number(group / files.usage);
  if (!limit_bytes || !used_bytes) return std::nullopt;
  int64_t kept_bytes = *used_bytes;
  for (const char* cache : files.cache)
    kept_bytes -= field(group / "memory.stat", cache).value_or(0);
  return std::max<int64_t>(0, *limit_bytes - std::max<int64_t>(0, kept_bytes));
}

}  // namespace

int64_t usable_memory_bytes(const std::filesystem::path& root) {
  int64_t usable_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const std::filesystem::path groups = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:memory:/path", in version 2 "0::/path"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controller = line.substr(first + 1, second - first - 1);
    const std::filesystem::path path = line.substr(second + 1);
    if (controller.empty())
      usable_bytes = std::min(usable_bytes, least_limit_bytes(groups, path, "memory.max"));
    if (controller == "memory")
      usable_bytes = std::min(usable_bytes,
                              least_limit_bytes(groups / "memory", path, "memory.limit_in_bytes"));
  }
  return usable_bytes;
}

int64_t available_memory_bytes(const std::filesystem::path& root) {
  const std::filesystem::path meminfo = root / "proc/meminfo";
  const int64_t swap_bytes = field(meminfo, "SwapFree:").value_or(0) * 1024;
  int64_t available_bytes = std::numeric_limits<int64_t>::max();
  if (const auto kilobytes = field(meminfo, "MemAvailable:"))
    available_bytes = *kilobytes * 1024 + swap_bytes;
  const std::filesystem::path groups = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controller = line.substr(first + 1, second - first - 1);
    if (!controller.empty() && controller != "memory") continue;
    const GroupFiles& files = controller.empty() ? kSecondVersion : kFirstVersion;
    const std::filesystem::path hierarchy = controller.empty() ? groups : groups / "memory";
    std::filesystem::path path = line.substr(second + 1);
    for (bool is_root = false; !is_root; path = path.parent_path()) {
      is_root = !path.has_relative_path();
      const auto room_bytes = room_of_group(hierarchy / path.relative_path(), files);
      if (room_bytes) available_bytes = std::min(available_bytes, *room_bytes + swap_bytes);
    }
  }
  return available_bytes;
}

SystemMemory read_system_memory(const std::filesystem::path& sysfs) {
  const std::filesystem::path settings = sysfs / "kernel/mm";
  SystemMemory memory;
  memory.numa_nodes = parse_list(sysfs_text(sysfs / "devices/system/node/has_memory"));
  memory.transparent_huge_pages =
      chosen_word(sysfs_text(settings / "transparent_hugepage/enabled"));
  memory.free_reserved_huge_pages =
      sysfs_number(settings / "hugepages/hugepages-2048kB/free_hugepages").value_or(0);
  return memory;
}

std::optional<int32_t> nearest_node(const SystemMemory& memory, int32_t device_node,
                                    int32_t drive_node) {
  const std::vector<int32_t>& nodes = memory.numa_nodes;
  const int32_t wanted = device_node >= 0 ? device_node : drive_node;
  const bool is_there = std::find(nodes.begin(), nodes.end(), wanted) != nodes.end();
  return nodes.size() > 1 && is_there ? std::optional(wanted) : std::nullopt;
}

// Calls the kernel directly to avoid a dependency on libnuma.
Status prefer_numa_node(std::byte* memory, int64_t size_bytes, int32_t node) {
  std::array<unsigned long, kNodesMax / kBitsPerWord> nodes{};
  nodes[static_cast<size_t>(node / kBitsPerWord)] = 1UL << (node % kBitsPerWord);
  // The kernel uses one bit less than the given number.
  if (syscall(SYS_mbind, memory, static_cast<size_t>(size_bytes), MPOL_PREFERRED, nodes.data(),
              kNodesMax + 1, 0) == 0)
    return Status();
  return Status(ErrorCode::kUnsupported,
                fmt::format("memory cannot be bound to NUMA node {}: {}", node, strerror(errno)));
}

}  // namespace teraio::device
