// The files that tests need, independent of the current directory. The paths are those of the
// build. They are in one object file, so that all others are identical in every clone.
#pragma once

#include <filesystem>
#include <string>

namespace teraio::testing {

// tests/data, or the file or folder `name` in it.
std::filesystem::path test_data(const std::string& name = "");

// A stand-in for libcufile.so.0 (testing/fake_cufile). `version` is "1150", "1070" or "0".
std::filesystem::path fake_cufile_library(const std::string& version);

}  // namespace teraio::testing
