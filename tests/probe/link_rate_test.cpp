#include "probe/link_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/units.h"
#include "device/cpu_device.h"
#include "testing/fake_async_device.h"
#include "testing/forwarding_device.h"

namespace teraio::probe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Every reading is one millisecond after the previous one.
class TickingClock final : public Clock {
 public:
  int64_t now_ns() const override { return 1'000'000 * ++readings_; }

 private:
  mutable int64_t readings_ = 0;
};

TEST(LinkRateTest, IsBytesOverTheTimeOfACopy) {
  auto device = std::move(*device::make_cpu_device(40'960'000));
  const Result<Rates> rate = measure_link(*device, TickingClock());
  ASSERT_TRUE(rate.ok()) << rate.status().message();
  EXPECT_EQ(rate->read_bytes_per_second, 10'240'000'000);
  EXPECT_EQ(rate->write_bytes_per_second, 10'240'000'000);
  EXPECT_EQ(device->usage().allocated_bytes, 0);
}

TEST(LinkRateTest, KeepsToTheOrderOfTheDevice) {
  testing::FakeAsyncDevice device({});
  ASSERT_TRUE(measure_link(device, TickingClock()).ok());
  device.run_all();
  EXPECT_THAT(device.violations(), IsEmpty());
  EXPECT_EQ(device.pinned_bytes(), 0);
}

// A device that writes down which host memory it copies to and from.
class HostRecordingDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Result<device::Event> copy_to_host(std::byte* host, const std::byte* device, int64_t size_bytes,
                                     device::Event after) override {
    used.insert(host);
    return ForwardingDevice::copy_to_host(host, device, size_bytes, after);
  }
  Result<device::Event> copy_from_host(std::byte* device, const std::byte* host, int64_t size_bytes,
                                       device::Event after) override {
    used.insert(host);
    return ForwardingDevice::copy_from_host(device, host, size_bytes, after);
  }

  std::set<const std::byte*> used;
};

TEST(LinkRateTest, IsThatOfTheMemoryWhichIsGiven) {
  testing::FakeAsyncDevice fake({});
  HostRecordingDevice device(fake);
  const Result<device::HostMemory> pool = device::HostMemory::map(kMiB, device);
  ASSERT_TRUE(pool.ok());
  const Result<Rates> rates = measure_link(device, TickingClock(), *pool);
  ASSERT_TRUE(rates.ok()) << rates.status().message();
  EXPECT_EQ(rates->read_bytes_per_second, kMiB * 1000);
  EXPECT_THAT(device.used, ElementsAre(pool->at(0)));
  EXPECT_EQ(device.usage().allocated_bytes, 0);
}

TEST(LinkRateTest, AFailedCopyIsTold) {
  testing::FakeAsyncDevice device({.failing_copy = 6});
  EXPECT_EQ(measure_link(device, TickingClock()).status().code(), ErrorCode::kIoError);
  EXPECT_EQ(device.usage().allocated_bytes, 0);
}

TEST(LinkRateTest, ADeviceWithoutMemoryIsToldOf) {
  testing::FakeAsyncDevice device({.budget_bytes = 0});
  EXPECT_EQ(measure_link(device, TickingClock()).status().code(), ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace teraio::probe
