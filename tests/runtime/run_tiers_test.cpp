#include "runtime/run_tiers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/cpu_device.h"
#include "runtime/fixture/known_drive.h"
#include "testing/loop_drive.h"
#include "testing/stepped_device.h"

namespace teraio::runtime {
namespace {

using ::testing::HasSubstr;
using testing::KnownDrive;

class RunTiersTest : public ::testing::Test {
 protected:
  Result<RunTiers> open() {
    return open_run_tiers(options_, *device_, clock_, [] { return false; });
  }

  KnownDrive drive_;
  RunOptions options_ = drive_.options();
  SteadyClock clock_;
  std::unique_ptr<device::Device> device_ =
      std::move(*device::make_cpu_device(options_.device_budget_bytes));
};

TEST_F(RunTiersTest, PlansKnowTheDriveAsItWasMeasured) {
  const Result<RunTiers> opened = open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const hardware::Hardware& hardware = opened->hardware;
  ASSERT_EQ(hardware.drives.size(), 1u);
  EXPECT_EQ(hardware.drives[0].rates, KnownDrive::kRates);
  EXPECT_EQ(hardware.request_latency_ns, KnownDrive::kLatencyNs);
  EXPECT_EQ(hardware.device_memory_bytes, 8 * kMiB);
  EXPECT_EQ(hardware.drives[0], opened->drive_shares.at(0).drive);
  EXPECT_TRUE(validate(hardware).ok());
}

TEST_F(RunTiersTest, TheSsdTierHasTheSizeOfTheOptions) {
  const Result<RunTiers> opened = open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->tiers.ssd->counters().capacity_bytes, 64 * kMiB);
  EXPECT_EQ(opened->tiers.host, nullptr);
  EXPECT_EQ(opened->hardware.host.capacity_bytes, 0);
}

TEST_F(RunTiersTest, OnASmallDriveTheSsdTierTakesHalfOfTheFreeSpace) {
  const testing::LoopDrive small(drive_.directory(), "ext4", 40 * kMiB);
  if (!small.why_not().empty()) GTEST_SKIP() << small.why_not();
  drive_.learn(small.path());
  options_.ssd_directories = {small.path()};
  options_.ssd_capacity_bytes = 0;
  const Result<RunTiers> opened = open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const int64_t free_bytes = opened->drive_shares.at(0).drive.capacity_bytes;
  EXPECT_NEAR(opened->tiers.ssd->counters().capacity_bytes, free_bytes / 2, kMiB);
}

TEST_F(RunTiersTest, TheHostTierTakesTheLimitWhereNothingIsStaged) {
  options_.host_limit_bytes = 16 * kMiB;
  const Result<RunTiers> opened = open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->hardware.host.capacity_bytes, 16 * kMiB);
  EXPECT_EQ(opened->tiers.host->counters().capacity_bytes, 16 * kMiB);
}

// Drives read and write the CPU's memory themselves. Only copies to the host tier take time.
TEST_F(RunTiersTest, TheLinkOfTheCpuLimitsNothing) {
  const Result<RunTiers> opened = open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_GT(opened->hardware.device_link.read_bytes_per_second,
            100 * KnownDrive::kRates.read_bytes_per_second);
  EXPECT_LT(opened->hardware.host.rates.read_bytes_per_second,
            opened->hardware.device_link.read_bytes_per_second);
}

TEST_F(RunTiersTest, TheLinkOfAnotherDeviceIsMeasured) {
  device_ = std::make_unique<testing::SteppedDevice>(testing::SteppedDeviceOptions());
  options_.ssd_directories.clear();
  Result<RunTiers> opened = open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->hardware.host.rates, opened->hardware.device_link) << "there is no host tier";
  options_.host_limit_bytes = 16 * kMiB;
  opened = open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->hardware.host.capacity_bytes, 16 * kMiB);
  EXPECT_GT(opened->hardware.host.rates.write_bytes_per_second, 0);
}

TEST_F(RunTiersTest, ALinkThatCannotBeMeasuredIsAFailure) {
  testing::SteppedDeviceOptions refusing;
  refusing.refused_copy = 1;
  device_ = std::make_unique<testing::SteppedDevice>(refusing);
  EXPECT_FALSE(open().ok());
}

TEST_F(RunTiersTest, MoreThanTheDriveHasIsRefused) {
  options_.ssd_capacity_bytes = int64_t{1} << 50;
  const Result<RunTiers> refused = open();
  EXPECT_EQ(refused.status().code(), ErrorCode::kOutOfSpace);
  EXPECT_THAT(refused.status().message(), HasSubstr("wanted"));
  EXPECT_TRUE(std::filesystem::is_empty(drive_.directory()));
}

}  // namespace
}  // namespace teraio::runtime
