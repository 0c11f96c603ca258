#include "base/sysfs.h"

#include <fmt/format.h>

#include <fstream>

namespace teraio {

namespace fs = std::filesystem;

std::string sysfs_text(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const size_t first = line.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t") - first + 1);
}

std::optional<int64_t> sysfs_number(const fs::path& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

fs::path sysfs_drive_folder(const fs::path& sysfs, unsigned major_number, unsigned minor_number) {
  std::error_code error;
  const fs::path link = sysfs / "dev/block" / fmt::format("{}:{}", major_number, minor_number);
  const fs::path folder = fs::canonical(link, error);
  if (error) return {};
  return fs::exists(folder / "partition", error) ? folder.parent_path() : folder;
}

}  // namespace teraio
