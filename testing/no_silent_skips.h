// Turns skipped tests into failures if TERAIO_REQUIRE_ALL=1 is set.
//
// A machine without root, loop devices or a kernel feature skips the tests that need it, and gives
// the reason. `make test-all` promises that everything was tested; there, a skipped test fails with
// that reason. tests/conftest.py does the same for Python tests.
#pragma once

namespace teraio::testing {

// The start of the reason of a skip that no installation and no permission can avoid, for example
// if a test needs a GPU or does not apply to the device. Such a skip never fails.
inline constexpr const char* kNotApplicable = "not applicable: ";

// Call this before RUN_ALL_TESTS. Does nothing unless TERAIO_REQUIRE_ALL is 1.
void fail_silent_skips();

}  // namespace teraio::testing
