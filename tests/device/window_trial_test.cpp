#include "device/window_trial.h"

#include <gtest/gtest.h>

namespace teraio::device {
namespace {

class WindowTrialTest : public ::testing::Test {
 protected:
  // An iteration of so many allocations, which take this time and map these pages. Returns whether
  // its blocks get windows.
  bool run_iteration(int64_t duration_ns, int64_t page_count = 200,
                     int64_t allocation_count = 1000) {
    const bool is_on = trial_.is_on(0, totals_);
    EXPECT_EQ(trial_.is_on(1, totals_), is_on);
    totals_.count += allocation_count;
    totals_.page_count += page_count;
    totals_.duration_ns += duration_ns;
    return is_on;
  }

  WindowTrial trial_;
  AllocationTotals totals_{5000, 5000, 5000};  // of iterations without a plan
};

TEST_F(WindowTrialTest, WindowsAreForMemoryThatIsScattered) {
  EXPECT_FALSE(run_iteration(1000, 10)) << "nothing is known of iterations with plans";
  EXPECT_FALSE(run_iteration(1000, 200)) << "the iteration before moved few pages";
  EXPECT_TRUE(run_iteration(1000));
}

TEST_F(WindowTrialTest, AFewAllocationsTellNothing) {
  EXPECT_FALSE(run_iteration(100, 100, 100));
  EXPECT_FALSE(run_iteration(200, 200, 200));
  EXPECT_TRUE(run_iteration(100, 100, 100));
}

TEST_F(WindowTrialTest, WindowsStayWhereTheySoonSaveTime) {
  run_iteration(1000);
  for (const int64_t duration_ns :
       {9000, 1500, 1400, 3000, 1100, 900, 9000, 10, 10, 10, 10, 10, 10})
    EXPECT_TRUE(run_iteration(duration_ns, 5000)) << duration_ns;
}

TEST_F(WindowTrialTest, WindowsThatTakeLongerAreGivenUpForGood) {
  run_iteration(1000);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(run_iteration(1001, 0)) << i;
  EXPECT_FALSE(run_iteration(1000));
  EXPECT_FALSE(run_iteration(1000));
}

// Of the last iteration without windows, not of all before.
TEST_F(WindowTrialTest, PagesThatBeginToMoveTellWhatIsUsual) {
  run_iteration(10, 10);
  run_iteration(1000, 200);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(run_iteration(900)) << i;
}

}  // namespace
}  // namespace teraio::device
