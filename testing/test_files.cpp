#include "testing/test_files.h"

namespace teraio::testing {

std::filesystem::path test_data(const std::string& name) {
  return std::filesystem::path(TERAIO_TEST_DATA) / name;
}

std::filesystem::path fake_cufile_library(const std::string& version) {
  return std::filesystem::path(TERAIO_FAKE_CUFILE) / version / "libcufile.so.0";
}

}  // namespace teraio::testing
