// Reads attributes of /sys, or of a captured copy of that tree in tests. Any thread may call these
// functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace teraio {

// Returns the first line of an attribute without leading and trailing blanks, which some drives pad
// it with; empty when the attribute is absent.
std::string sysfs_text(const std::filesystem::path& path);

// Returns the number that an attribute begins with; nullopt when the attribute is absent or does
// not begin with a number.
std::optional<int64_t> sysfs_number(const std::filesystem::path& path);

// Returns the folder of the drive with that device number; for the number of a partition, the
// folder of the drive that contains it. Empty when /sys has no such device, as for overlay and
// btrfs.
std::filesystem::path sysfs_drive_folder(const std::filesystem::path& sysfs, unsigned major_number,
                                         unsigned minor_number);

}  // namespace teraio
