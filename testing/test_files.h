// The files that tests need, independent of the current directory.
#pragma once

#include <filesystem>
#include <string>

namespace teraio::testing {

// tests/data of the sources, or the file or folder `name` in it. $TERAIO_TEST_DATA names the folder
// where the sources have moved since the build. The path of the build is in one object file, so
// that all others are identical in every clone.
std::filesystem::path test_data(const std::string& name = "");

// A stand-in for libcufile.so.0 (testing/fake_cufile) in the build folder of this program.
// `version` is "1150", "1070" or "0".
std::filesystem::path fake_cufile_library(const std::string& version);

}  // namespace teraio::testing
