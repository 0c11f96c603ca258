#include "device/window_trial.h"

#include <gtest/gtest.h>

namespace teraio::device {
namespace {

class WindowTrialTest : public ::testing::Test {
 protected:
  // Allocations of an iteration, for which pages are mapped. Returns whether its blocks get
  // windows.
  bool run_iteration(int64_t allocation_count, int64_t page_count) {
    const bool is_on = trial_.is_on(0, allocation_count_, page_count_);
    EXPECT_EQ(trial_.is_on(1, allocation_count_, page_count_), is_on);
    allocation_count_ += allocation_count;
    page_count_ += page_count;
    return is_on;
  }

  WindowTrial trial_;
  int64_t allocation_count_ = 0;
  int64_t page_count_ = 0;
};

TEST_F(WindowTrialTest, WindowsAreForMemoryThatIsScattered) {
  EXPECT_FALSE(run_iteration(1000, 10));
  EXPECT_FALSE(run_iteration(1000, 200)) << "the iteration before moved few pages";
  EXPECT_TRUE(run_iteration(1000, 5000));
}

TEST_F(WindowTrialTest, AFewAllocationsTellNothing) {
  run_iteration(100, 100);
  EXPECT_FALSE(run_iteration(200, 200));
  EXPECT_TRUE(run_iteration(100, 100));
}

TEST_F(WindowTrialTest, WindowsStayWhereTheySoonSaveMoves) {
  run_iteration(1000, 200);
  for (const int64_t page_count : {5000, 1500, 600, 300, 210, 100, 5000, 0, 0, 0, 0, 0, 0})
    EXPECT_TRUE(run_iteration(1000, page_count)) << page_count;
}

TEST_F(WindowTrialTest, WindowsThatMapMoreAreGivenUpForGood) {
  run_iteration(1000, 200);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(run_iteration(1000, 300)) << i;
  EXPECT_FALSE(run_iteration(1000, 5000));
  EXPECT_FALSE(run_iteration(1000, 5000));
}

}  // namespace
}  // namespace teraio::device
