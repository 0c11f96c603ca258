#include "learn/drive_rate_monitor.h"

#include <gtest/gtest.h>

namespace teraio::learn {
namespace {

constexpr int64_t kMB = 1'000'000;

class DriveRateMonitorTest : public ::testing::Test {
 protected:
  static hardware::Hardware machine(double duplex) {
    hardware::Hardware hardware;
    hardware.drives.push_back({"nvme0", 0, {2000 * kMB, 1000 * kMB}, duplex, std::nullopt});
    return hardware;
  }

  // Never twice the same to the byte, as measurements are.
  std::vector<storage::DriveCounters> measured(int64_t read_mb, int64_t write_mb) {
    storage::DriveCounters counters;
    counters.bytes_read = 5000 * kMB;
    counters.bytes_written = 5000 * kMB;
    counters.recent_rates.read_bytes_per_second = read_mb * kMB + (++measurement_ % 2);
    counters.recent_rates.write_bytes_per_second = write_mb * kMB;
    return {counters};
  }

  const Rates& rates() const { return watch_.hardware().drives[0].rates; }

  int64_t measurement_ = 0;
  DriveRateMonitor watch_{machine(1)};
};

TEST_F(DriveRateMonitorTest, ADriveAsFastAsPlannedIsLeftAlone) {
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(watch_.note_iteration(measured(1900, 950)));
  EXPECT_EQ(rates(), (Rates{2000 * kMB, 1000 * kMB}));
}

TEST_F(DriveRateMonitorTest, DirectionsThatShareTheDriveAreNotSlow) {
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(watch_.note_iteration(measured(1000, 500)));
  DriveRateMonitor independent(machine(2));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(independent.note_iteration(measured(1600, 800)));
}

TEST_F(DriveRateMonitorTest, ASlowDriveIsBelievedAtTheSecondTime) {
  EXPECT_FALSE(watch_.note_iteration(measured(200, 100)));
  const auto change = watch_.note_iteration(measured(200, 100));
  ASSERT_TRUE(change);
  EXPECT_NE(change->find("nvme0 is slower than planned"), std::string::npos) << *change;
  EXPECT_EQ(rates(), (Rates{400 * kMB, 200 * kMB}));
}

TEST_F(DriveRateMonitorTest, OneSlowIterationIsNotBelieved) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(watch_.note_iteration(measured(200, 100)));
    EXPECT_FALSE(watch_.note_iteration(measured(1900, 900)));
  }
}

TEST_F(DriveRateMonitorTest, OneMeasurementIsNotBelievedHoweverOftenItIsSeen) {
  const auto once = measured(200, 100);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(watch_.note_iteration(once));
}

TEST_F(DriveRateMonitorTest, ADriveThatRecoversIsFasterAgain) {
  for (int i = 0; i < 2; ++i) watch_.note_iteration(measured(200, 100));
  for (int i = 0; i < 2; ++i) watch_.note_iteration(measured(1900, 900));
  EXPECT_EQ(rates(), (Rates{1900 * kMB, 950 * kMB}));
}

// The planned rates may be those of a run on a busy machine.
TEST_F(DriveRateMonitorTest, ADriveMayBeFasterThanItEverWas) {
  EXPECT_FALSE(watch_.note_iteration(measured(6000, 3000)));
  const auto change = watch_.note_iteration(measured(6000, 3000));
  ASSERT_TRUE(change);
  EXPECT_NE(change->find("nvme0 is faster than planned"), std::string::npos) << *change;
  EXPECT_EQ(rates(), (Rates{6000 * kMB, 3000 * kMB}));
}

TEST_F(DriveRateMonitorTest, ADirectionThatWasNeverUnderLoadProvesNothing) {
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(watch_.note_iteration(measured(200, 0)));
}

TEST_F(DriveRateMonitorTest, AJobThatOnlyReadsIsWatchedToo) {
  auto counters = measured(200, 0);
  counters[0].bytes_written = 0;
  EXPECT_FALSE(watch_.note_iteration(counters));
  ++counters[0].recent_rates.read_bytes_per_second;
  EXPECT_TRUE(watch_.note_iteration(counters));
}

TEST_F(DriveRateMonitorTest, OnlyTheSlowDriveChanges) {
  hardware::Hardware hardware = machine(1);
  hardware.drives.push_back({"nvme1", 0, {3000 * kMB, 3000 * kMB}, 1, std::nullopt});
  DriveRateMonitor watch(hardware);
  auto counters = measured(200, 100);
  counters.push_back(measured(2900, 2900)[0]);
  EXPECT_FALSE(watch.note_iteration(counters));
  for (storage::DriveCounters& drive : counters) ++drive.recent_rates.read_bytes_per_second;
  EXPECT_TRUE(watch.note_iteration(counters));
  EXPECT_EQ(watch.hardware().drives[1].rates, (Rates{3000 * kMB, 3000 * kMB}));
  EXPECT_LT(watch.hardware().drives[0].rates.read_bytes_per_second, 1000 * kMB);
}

}  // namespace
}  // namespace teraio::learn
