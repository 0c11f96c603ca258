// DriveIdentity: which drive a directory lies on, from /sys.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/status.h"

namespace teraio::drives {

struct DriveIdentity {
  std::string name;   // "nvme0n1"; "dev-0:40" when the file system hides its drive (overlay, btrfs)
  std::string model;  // empty: unknown, as the next two
  std::string serial;
  std::string firmware;
  uint64_t file_system_device = 0;  // st_dev
  std::filesystem::path folder;     // of the drive in /sys; empty: hidden

  // Partitions of one drive, and directories of one file system, are the same drive.
  bool is_same_drive(const DriveIdentity& other) const { return name == other.name; }
};

// `sysfs` is a parameter so that a captured tree can stand in for this machine's.
Result<DriveIdentity> identify_drive(const std::filesystem::path& directory,
                                     const std::filesystem::path& sysfs = "/sys");

}  // namespace teraio::drives
