// Access to the state of a stand-in for cuFile.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/fake_cufile/fake_cufile.h"

namespace teraio::testing {

// Returns null, and reports a failure, if the library cannot be loaded. It stays loaded until the
// process ends.
inline FakeCufile* loaded_fake_cufile(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_NODELETE);
  const auto find = library == nullptr
                        ? nullptr
                        : reinterpret_cast<FakeCufile* (*)()>(dlsym(library, "fake_cufile"));
  EXPECT_NE(find, nullptr) << path << ": " << dlerror();
  return find == nullptr ? nullptr : find();
}

}  // namespace teraio::testing
