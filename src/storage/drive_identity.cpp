#include "storage/drive_identity.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace teraio {
namespace {

namespace fs = std::filesystem;

// The first line of an attribute without the padding that drives put around it; empty when absent.
std::string attribute(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const size_t first = line.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t") - first + 1);
}

// The first of the two attributes that says something: virtio has its serial one level up.
std::string either(const fs::path& first, const fs::path& second) {
  const std::string value = attribute(first);
  return value.empty() ? attribute(second) : value;
}

// The directory of the whole drive; empty when sysfs does not know the device number.
fs::path drive_folder(const fs::path& sysfs, unsigned major_number, unsigned minor_number) {
  std::error_code error;
  const fs::path link = sysfs / "dev/block" / fmt::format("{}:{}", major_number, minor_number);
  const fs::path folder = fs::canonical(link, error);
  if (error) return {};
  return fs::exists(folder / "partition", error) ? folder.parent_path() : folder;
}

}  // namespace

Result<DriveIdentity> identify_drive(const fs::path& directory, const fs::path& sysfs) {
  struct stat info;
  if (stat(directory.c_str(), &info) != 0) {
    return Status(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIoError,
                  fmt::format("ssd directory {}: {}", directory.string(), strerror(errno)));
  }
  const unsigned major_number = major(info.st_dev);
  const unsigned minor_number = minor(info.st_dev);
  const fs::path folder = drive_folder(sysfs, major_number, minor_number);
  DriveIdentity identity;
  identity.file_system_device = info.st_dev;
  identity.name = fmt::format("dev-{}:{}", major_number, minor_number);
  if (folder.empty()) return identity;
  identity.name = folder.filename().string();
  identity.model = attribute(folder / "device/model");
  identity.serial = either(folder / "device/serial", folder / "serial");
  identity.firmware = attribute(folder / "device/firmware_rev");
  return identity;
}

}  // namespace teraio
