// Reading /sys, or a captured tree that stands in for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace teraio {

// The first line of an attribute without the padding that drives put around it; empty when absent.
std::string sysfs_text(const std::filesystem::path& path);

// A number at the beginning of an attribute; nullopt when absent or something else.
std::optional<int64_t> sysfs_number(const std::filesystem::path& path);

// The folder of the block device of that number: of the whole drive, not of a partition. Empty when
// /sys does not know the number, which is so for overlay and btrfs.
std::filesystem::path sysfs_drive_folder(const std::filesystem::path& sysfs, unsigned major_number,
                                         unsigned minor_number);

}  // namespace teraio
