#include "probe/link_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/units.h"
#include "testing/forwarding_device.h"
#include "testing/stepped_device.h"

namespace teraio::probe {
namespace {

using ::testing::ElementsAre;

// Every reading is one millisecond after the previous one.
class TickingClock final : public Clock {
 public:
  int64_t now_ns() const override { return 1'000'000 * ++readings_; }

 private:
  mutable int64_t readings_ = 0;
};

// A device with a clock of its own: a wait takes the time of the copies that it waits for, 1 ns per
// byte to the device and 2 ns from it, and `latency_ns`. Those of both directions at once take
// longer.
class LinkDevice final : public testing::ForwardingDevice, public Clock {
 public:
  LinkDevice(device::Device& behind, double slowdown, int64_t latency_ns = 0)
      : ForwardingDevice(behind), slowdown_(slowdown), latency_ns_(latency_ns) {}
  int64_t now_ns() const override { return now_ns_; }
  Result<device::Event> start_copy(const Copy& copy) override {
    if (copy.is_to_host) {
      out_ns_ += 2 * copy.size_bytes;
    } else {
      in_ns_ += copy.size_bytes;
    }
    return ForwardingDevice::start_copy(copy);
  }
  Status wait_for(device::Event event) override {
    const double slowdown = in_ns_ > 0 && out_ns_ > 0 ? slowdown_ : 1;
    if (in_ns_ > 0 || out_ns_ > 0) now_ns_ += latency_ns_;
    now_ns_ +=
        static_cast<int64_t>(slowdown * static_cast<double>(std::max(std::exchange(in_ns_, 0),
                                                                     std::exchange(out_ns_, 0))));
    return ForwardingDevice::wait_for(event);
  }

 private:
  const double slowdown_;
  const int64_t latency_ns_;
  int64_t in_ns_ = 0;
  int64_t out_ns_ = 0;
  int64_t now_ns_ = 0;
};

TEST(LinkRateTest, IsBytesOverTheTimeOfACopy) {
  testing::SteppedDevice stepped({});
  LinkDevice device(stepped, 1);
  const Result<Rates> rates = measure_link(device, device);
  ASSERT_TRUE(rates.ok()) << rates.status().message();
  EXPECT_EQ(*rates, (Rates{1'000'000'000, 500'000'000}));
  EXPECT_EQ(device.usage().allocated_bytes, 0);
}

TEST(LinkRateTest, IsThatWithBothDirectionsAtOnce) {
  testing::SteppedDevice stepped({});
  LinkDevice device(stepped, 1.25);
  const Result<Rates> rates = measure_link(device, device);
  ASSERT_TRUE(rates.ok()) << rates.status().message();
  EXPECT_EQ(*rates, (Rates{800'000'000, 400'000'000}));
}

// Half of 4 MiB takes 2.1 ms to the device.
TEST(LinkRateTest, TheTimeToStartACopyAndToNoticeItsEndHardlyCounts) {
  testing::SteppedDevice stepped({.budget_bytes = 16 * kMiB});
  LinkDevice device(stepped, 1, 1'000'000);
  const Result<Rates> rates = measure_link(device, device);
  ASSERT_TRUE(rates.ok()) << rates.status().message();
  EXPECT_GT(rates->read_bytes_per_second, 900'000'000) << "680,000,000 by single copies";
  EXPECT_GT(rates->write_bytes_per_second, 450'000'000);
}

TEST(LinkRateTest, LeavesNothingPinned) {
  testing::SteppedDevice device({});
  ASSERT_TRUE(measure_link(device, TickingClock()).ok());
  EXPECT_EQ(device.pinned_bytes(), 0);
}

// A device that writes down which host memory it copies to and from.
class HostRecordingDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Result<device::Event> start_copy(const Copy& copy) override {
    used.insert(copy.is_to_host ? copy.to : copy.from);
    return ForwardingDevice::start_copy(copy);
  }

  std::set<const std::byte*> used;
};

TEST(LinkRateTest, IsThatOfTheMemoryWhichIsGiven) {
  testing::SteppedDevice stepped({});
  HostRecordingDevice device(stepped);
  const Result<device::HostMemory> pool = device::HostMemory::map(kMiB, device);
  ASSERT_TRUE(pool.ok());
  const Result<Rates> rates = measure_link(device, TickingClock(), *pool);
  ASSERT_TRUE(rates.ok()) << rates.status().message();
  EXPECT_THAT(device.used, ElementsAre(pool->at(0), pool->at(kMiB / 2)));
  EXPECT_EQ(device.usage().allocated_bytes, 0);
}

TEST(LinkRateTest, AFailedCopyIsTold) {
  testing::SteppedDevice device({.failing_copy = 6});
  EXPECT_EQ(measure_link(device, TickingClock()).status().code(), ErrorCode::kIoError);
  EXPECT_EQ(device.usage().allocated_bytes, 0);
}

// A GPU on which a program has most of the budget from before the session.
class FullDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::byte* allocate_block(int64_t size_bytes, device::Effort effort,
                            const device::Tenant& tenant) override {
    if (effort == device::Effort::kUsual) return nullptr;
    return ForwardingDevice::allocate_block(size_bytes, effort, tenant);
  }
};

TEST(LinkRateTest, AFullDeviceIsMeasuredToo) {
  testing::SteppedDevice behind({});
  FullDevice device(behind);
  EXPECT_TRUE(measure_link(device, TickingClock()).ok());
}

TEST(LinkRateTest, ADeviceWithoutMemoryIsToldOf) {
  testing::SteppedDevice device({.budget_bytes = 0});
  EXPECT_EQ(measure_link(device, TickingClock()).status().code(), ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace teraio::probe
