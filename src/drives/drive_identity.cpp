#include "drives/drive_identity.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>

#include "base/sysfs.h"

namespace teraio::drives {
namespace {

namespace fs = std::filesystem;

// The first attribute that is not empty. virtio keeps its serial number one level up.
std::string either(const fs::path& first, const fs::path& second) {
  const std::string value = sysfs_text(first);
  return value.empty() ? sysfs_text(second) : value;
}

}  // namespace

Result<DriveIdentity> identify_drive(const fs::path& directory, const fs::path& sysfs) {
  struct stat info;
  if (stat(directory.c_str(), &info) != 0)
    return Status(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIoError,
                  fmt::format("ssd directory {}: expected an existing directory: {}",
                              directory.string(), strerror(errno)));
  const unsigned major_number = major(info.st_dev);
  const unsigned minor_number = minor(info.st_dev);
  const fs::path folder = sysfs_drive_folder(sysfs, major_number, minor_number);
  DriveIdentity identity;
  identity.file_system_device = info.st_dev;
  identity.name = fmt::format("dev-{}:{}", major_number, minor_number);
  if (folder.empty()) return identity;
  identity.name = folder.filename().string();
  identity.folder = folder;
  identity.model = sysfs_text(folder / "device/model");
  identity.serial = either(folder / "device/serial", folder / "serial");
  identity.firmware = sysfs_text(folder / "device/firmware_rev");
  return identity;
}

}  // namespace teraio::drives
