#include "testing/test_files.h"

#include <cstdlib>

namespace teraio::testing {

std::filesystem::path test_data(const std::string& name) {
  const char* elsewhere = std::getenv("TERAIO_TEST_DATA");
  return std::filesystem::path(elsewhere != nullptr ? elsewhere : TERAIO_TEST_DATA) / name;
}

std::filesystem::path fake_cufile_library(const std::string& version) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  return program.parent_path().parent_path() / "testing/fake_cufile" / version / "libcufile.so.0";
}

}  // namespace teraio::testing
