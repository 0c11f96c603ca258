#include "storage/tiers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "base/units.h"
#include "device/cpu_device.h"
#include "storage/store_session.h"
#include "testing/scratch_directory.h"
#include "testing/stepped_device.h"

namespace teraio::storage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ScratchDirectory;

constexpr int64_t kRingBytes = 16 * kMiB;  // 16 requests of 1 MiB

class TiersTest : public ::testing::Test {
 protected:
  Result<Tiers> open(int64_t host_limit_bytes, bool has_drive = true) {
    TierOptions options;
    if (has_drive) options.directories = {{directory_.path(), rates_}};
    options.ssd.capacity_bytes = 32 * kMiB;
    options.ssd.gpu_direct = io::GpuDirect::kOff;
    options.host_limit_bytes = host_limit_bytes;
    options.measure_pool = measure_pool_;
    return open_tiers(options, *device_, clock_);
  }
  void use_cpu() { device_ = std::move(*device::make_cpu_device(kMiB)); }

  int64_t ring_bytes(int64_t host_limit_bytes, Rates rates) {
    rates_ = rates;
    const Result<Tiers> tiers = open(host_limit_bytes);
    EXPECT_TRUE(tiers.ok()) << tiers.status().message();
    return tiers.ok() ? tiers->ssd->counters().staging_bytes : 0;
  }

  Rates rates_;
  std::function<Status(const device::HostMemory&)> measure_pool_;
  ScratchDirectory directory_;
  SteadyClock clock_;
  std::unique_ptr<device::Device> device_ =
      std::make_unique<testing::SteppedDevice>(testing::SteppedDeviceOptions());
};

TEST_F(TiersTest, ThePoolIsWhatStagingLeavesOfTheLimit) {
  const Result<Tiers> tiers = open(kRingBytes + 24 * kMiB);
  ASSERT_TRUE(tiers.ok()) << tiers.status().message();
  EXPECT_EQ(tiers->ssd->counters().staging_bytes, kRingBytes);
  EXPECT_EQ(tiers->host->counters().capacity_bytes, 24 * kMiB);
  EXPECT_EQ(tiers->host->counters().staging_bytes, 0);
  EXPECT_EQ(static_cast<testing::SteppedDevice&>(*device_).pinned_bytes(), kRingBytes + 24 * kMiB);
}

TEST_F(TiersTest, FastDrivesAreStagedInLargerRequests) {
  constexpr int64_t kGB = 1'000'000'000;
  EXPECT_EQ(ring_bytes(0, {2 * kGB, 2 * kGB}), kRingBytes);
  EXPECT_EQ(ring_bytes(0, {3 * kGB, 3 * kGB}), 2 * kRingBytes);
  EXPECT_EQ(ring_bytes(0, {7 * kGB, 7 * kGB}), 4 * kRingBytes);
  EXPECT_EQ(ring_bytes(0, {100 * kGB, 100 * kGB}), 4 * kRingBytes);
  EXPECT_EQ(ring_bytes(0, {7 * kGB, 2 * kGB}), kRingBytes) << "urgent reads wait for writes";
}

TEST_F(TiersTest, LargerRequestsTakeAnEighthOfALimitAtMost) {
  const Rates rates{7'000'000'000, 7'000'000'000};
  EXPECT_EQ(ring_bytes(8 * 4 * kRingBytes, rates), 4 * kRingBytes);
  EXPECT_EQ(ring_bytes(8 * 4 * kRingBytes - 8, rates), 2 * kRingBytes);
  EXPECT_EQ(ring_bytes(kRingBytes, rates), kRingBytes);
}

TEST_F(TiersTest, ALimitThatStagingUsesUpLeavesNoHostTier) {
  const Result<Tiers> tiers = open(kRingBytes + 100);
  ASSERT_TRUE(tiers.ok()) << tiers.status().message();
  EXPECT_NE(tiers->ssd, nullptr);
  EXPECT_EQ(tiers->host, nullptr);
}

TEST_F(TiersTest, ALimitThatDoesNotHoldTheStagingIsRefusedWithBothNumbers) {
  const Result<Tiers> tiers = open(kRingBytes - 1);
  ASSERT_FALSE(tiers.ok());
  EXPECT_EQ(tiers.status().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(tiers.status().message(),
              AllOf(HasSubstr("limit of host memory is 16777215 bytes"), HasSubstr("1 drive "),
                    HasSubstr("needs 16777216 bytes")));
  EXPECT_TRUE(directory_.is_empty());
}

TEST_F(TiersTest, WithoutALimitThereIsStagingAndNoHostTier) {
  const Result<Tiers> tiers = open(0);
  ASSERT_TRUE(tiers.ok()) << tiers.status().message();
  EXPECT_EQ(tiers->ssd->counters().staging_bytes, kRingBytes);
  EXPECT_EQ(tiers->host, nullptr);
}

TEST_F(TiersTest, WithoutDrivesThePoolHasTheWholeLimit) {
  const Result<Tiers> tiers = open(24 * kMiB, false);
  ASSERT_TRUE(tiers.ok()) << tiers.status().message();
  EXPECT_EQ(tiers->ssd, nullptr);
  EXPECT_EQ(tiers->host->counters().capacity_bytes, 24 * kMiB);
}

TEST_F(TiersTest, ThePoolCanBeMeasuredBeforeItIsUsed) {
  std::vector<int64_t> measured_bytes;
  measure_pool_ = [&](const device::HostMemory& pool) {
    measured_bytes.push_back(pool.size_bytes());
    return Status();
  };
  ASSERT_TRUE(open(kRingBytes + 24 * kMiB).ok());
  EXPECT_THAT(measured_bytes, ElementsAre(24 * kMiB));
  ASSERT_TRUE(open(0).ok()) << "without a host tier";
  EXPECT_EQ(measured_bytes.size(), 1u);
  measure_pool_ = [](const device::HostMemory&) { return Status(ErrorCode::kIoError, "no rate"); };
  EXPECT_EQ(open(24 * kMiB, false).status().message(), "no rate");
}

TEST_F(TiersTest, WhereNothingIsStagedThePoolHasTheWholeLimit) {
  use_cpu();
  const Result<Tiers> tiers = open(24 * kMiB);
  ASSERT_TRUE(tiers.ok()) << tiers.status().message();
  EXPECT_EQ(tiers->ssd->counters().staging_bytes, 0);
  EXPECT_EQ(tiers->host->counters().capacity_bytes, 24 * kMiB);
}

}  // namespace
}  // namespace teraio::storage
