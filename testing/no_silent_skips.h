// Skipped tests are failures where every test is wanted: with TERAIO_REQUIRE_ALL=1 in the
// environment.
//
// A machine without root, loop devices or a kernel feature skips the tests that need it, and says
// why. `make test-all` promises that everything was tested; there a skipped test fails with the
// same reason. tests/conftest.py does the same for the Python tests.
#pragma once

namespace teraio::testing {

// Begins the reason of a skip that no installation and no rights avoid: a test that needs a GPU, or
// that says nothing about the device it runs on. It never fails.
inline constexpr const char* kNotApplicable = "not applicable: ";

// Call before RUN_ALL_TESTS. Does nothing unless TERAIO_REQUIRE_ALL is 1.
void fail_silent_skips();

}  // namespace teraio::testing
