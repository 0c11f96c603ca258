// The main function of every test program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/no_silent_skips.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  teraio::testing::fail_silent_skips();
  return RUN_ALL_TESTS();
}
