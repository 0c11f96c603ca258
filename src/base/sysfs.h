// Reads attributes of /sys, or of a captured tree that stands in for it. Threads: any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace teraio {

// The first line of an attribute, without the blanks that drives pad it with; empty when it is
// absent.
std::string sysfs_text(const std::filesystem::path& path);

// The number that an attribute begins with; nullopt when it is absent or begins with something
// else.
std::optional<int64_t> sysfs_number(const std::filesystem::path& path);

// The folder of the block device with that number: of the whole drive, also for the number of a
// partition. Empty when /sys does not know the number, as for overlay and btrfs.
std::filesystem::path sysfs_drive_folder(const std::filesystem::path& sysfs, unsigned major_number,
                                         unsigned minor_number);

}  // namespace teraio
