// DriveIdentity: the drive that a directory lies on, from /sys. Any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/status.h"

namespace teraio::drives {

struct DriveIdentity {
  std::string name;   // "nvme0n1"; "dev-0:40" if the file system hides its drive (overlay, btrfs)
  std::string model;  // empty if unknown, like the next two
  std::string serial;
  std::string firmware;
  uint64_t file_system_device = 0;  // st_dev
  std::filesystem::path folder;     // of the drive in /sys; empty if the drive is hidden

  // Partitions of one drive are the same drive, and so are directories of one file system.
  bool is_same_drive(const DriveIdentity& other) const { return name == other.name; }
};

// Returns kNotFound if there is no such directory, and kIoError if it cannot be examined. Tests
// pass a captured tree as `sysfs`.
Result<DriveIdentity> identify_drive(const std::filesystem::path& directory,
                                     const std::filesystem::path& sysfs = "/sys");

}  // namespace teraio::drives
