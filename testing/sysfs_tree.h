// A tree like /sys, unpacked for one test from tests/data/sysfs/*.txt.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "testing/scratch_directory.h"
#include "testing/test_files.h"

namespace teraio::testing {

class SysfsTree {
 public:
  explicit SysfsTree(const std::string& name) {
    std::ifstream lines(test_data("sysfs/" + name + ".txt"));
    EXPECT_TRUE(lines.good()) << name;
    for (std::string line; std::getline(lines, line);) unpack(line);
  }

  const std::filesystem::path& path() const { return directory_.path(); }
  std::filesystem::path drive(const std::string& name) const {
    return std::filesystem::canonical(path() / "class/block" / name);
  }

 private:
  void unpack(const std::string& line) {
    const size_t blank = line.find(' ');
    const std::filesystem::path place = path() / line.substr(0, blank);
    std::filesystem::create_directories(place.parent_path());
    if (line.compare(blank, 4, " -> ") == 0)
      std::filesystem::create_symlink(line.substr(blank + 4), place);
    else
      std::ofstream(place) << line.substr(blank + 3) << "\n";
  }

  ScratchDirectory directory_;
};

}  // namespace teraio::testing
