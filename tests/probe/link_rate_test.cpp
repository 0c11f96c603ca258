#include "probe/link_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/cpu_device.h"
#include "testing/fake_async_device.h"

namespace teraio::probe {
namespace {

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
