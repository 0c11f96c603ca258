#include "device/device_order.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace teraio::device {
namespace {

// An order in which no point can be recorded, as on a GPU that has failed.
class FailedOrder final : public DeviceOrder {
 public:
  Status move_within(std::byte*, const std::byte*, int64_t) override { return {}; }
  Status fill(std::byte*, int64_t, int) override { return {}; }

  int call_count = 0;

 private:
  Result<Event> record_point(Stream) override {
    return Status(ErrorCode::kDeviceFailed, "gone " + std::to_string(++record_count_));
  }
  bool is_past(Event) const override { return true; }
  Status wait_for(Event) override { return called(); }
  Status make_wait(Stream, Event) override { return called(); }
  Result<Event> start_copy(const Copy&) override { return called(); }
  Status called() {
    ++call_count;
    return {};
  }

  int record_count_ = 0;
};

TEST(DeviceOrderTest, APointThatCouldNotBeRecordedNeverPasses) {
  FailedOrder order;
  const Event point = order.record();
  EXPECT_FALSE(order.has_passed(point));
  EXPECT_EQ(order.wait(point).message(), "gone 1");
  const Event later = order.record_on(&order);
  EXPECT_EQ(order.wait(later).message(), "gone 1") << "the first error is the cause";
}

TEST(DeviceOrderTest, NothingIsOrderedAfterAPointThatCouldNotBeRecorded) {
  FailedOrder order;
  const Event point = order.record();
  std::array<std::byte, 2> bytes = {};
  EXPECT_EQ(order.order_after(point).code(), ErrorCode::kDeviceFailed);
  EXPECT_EQ(order.order_stream_after(&order, point).code(), ErrorCode::kDeviceFailed);
  EXPECT_EQ(order.copy_to_host(&bytes[0], &bytes[1], 1, point).status().code(),
            ErrorCode::kDeviceFailed);
  EXPECT_EQ(order.call_count, 0) << "the device is not asked";
}

TEST(DeviceOrderTest, ThePointZeroHasPassedWithoutAQuestion) {
  FailedOrder order;
  EXPECT_TRUE(order.has_passed({}));
  EXPECT_TRUE(order.wait({}).ok());
  EXPECT_TRUE(order.order_after({}).ok());
  EXPECT_EQ(order.call_count, 0);
}

}  // namespace
}  // namespace teraio::device
