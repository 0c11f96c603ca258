// A drive slower than planned: what is reported, where, and how often.
#include "storage/slowdown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "storage/store_session.h"
#include "storage/striped_store.h"
#include "testing/gated_io.h"

namespace teraio::storage {
namespace {

using testing::Gate;
using testing::GatedIo;
using ::testing::HasSubstr;
using testing::PageMemory;
using testing::StoreSession;
using testing::Submitted;

constexpr int64_t kSecond = 1'000'000'000;

Slowdown slow(io::Direction direction, std::optional<drives::Temperature> temperature) {
  return {direction, 600e6, 2.1e9, 113'000'000'000, temperature};
}

TEST(DescribeSlowdown, HeatIsNamed) {
  EXPECT_EQ(describe(slow(io::Direction::kWrite, drives::Temperature{81, 82})),
            "writes 600 MB/s, 2.10 GB/s planned; its temperature is 81 C, it slows down at 82 C");
}

TEST(DescribeSlowdown, WithoutHeatNoCauseIsKnown) {
  EXPECT_THAT(describe(slow(io::Direction::kWrite, drives::Temperature{50, 82})),
              HasSubstr("is 50 C, 113 GB were written to it in this run; no cause is known"));
  for (const auto direction : {io::Direction::kRead, io::Direction::kWrite})
    EXPECT_THAT(describe(slow(direction, std::nullopt)), HasSubstr("its temperature is not known"));
}

// One drive that is expected to complete 8 requests of 64 KiB per second.
class SlowdownTest : public ::testing::Test {
 protected:
  static constexpr int64_t kRequestBytes = 64 * 1024;

  SlowdownTest() {
    std::vector<DriveSpec> drives(1);
    drives[0].name = "slow0";
    drives[0].capacity_bytes = int64_t{64} << 20;
    drives[0].rates = {8 * kRequestBytes, 8 * kRequestBytes};
    drives[0].temperature = [this] {
      ++temperature_count_;
      return std::optional(drives::Temperature{84, 82});
    };
    drives[0].io = std::make_unique<GatedIo>(gate_);
    StripedStoreOptions options;
    options.request_bytes = kRequestBytes;
    options.queue_depth = 1;
    session_ = std::make_unique<StoreSession>(
        std::make_unique<StripedStore>(std::move(drives), options, clock_));
  }
  ~SlowdownTest() override {
    gate_.open();
    session_.reset();
  }

  // Writes for `seconds` at `requests_per_second`.
  void write(int seconds, int requests_per_second) {
    const int64_t request_count = int64_t{seconds} * requests_per_second;
    PageMemory memory(request_count * kRequestBytes);
    const Extent extent = session_->reserve(memory.size_bytes());
    const Submitted submitted = session_->submit(io::Direction::kWrite, extent, memory);
    for (int64_t i = 0; i < request_count; ++i) {
      const std::vector<io::IoRequest> in_flight = gate_.in_flight();
      ASSERT_EQ(in_flight.size(), 1);
      clock_.advance_to(clock_.now_ns() + kSecond / requests_per_second);
      gate_.end(in_flight[0]);
    }
    session_->wait(submitted);
    gate_.begun();
    session_->store().release(extent);
  }

  std::string slowdown() { return session_->store().counters().drives[0].slowdown; }

  VirtualClock clock_;
  Gate gate_;
  int temperature_count_ = 0;
  std::unique_ptr<StoreSession> session_;
};

TEST_F(SlowdownTest, ADriveAsFastAsPlannedIsNotMentioned) {
  write(3, 8);
  EXPECT_EQ(slowdown(), "");
  EXPECT_EQ(temperature_count_, 0);
}

TEST_F(SlowdownTest, ASlowOneIsNamedOnceWithItsCause) {
  write(6, 4);
  EXPECT_THAT(slowdown(), HasSubstr("writes 262 kB/s, 524 kB/s planned"));
  EXPECT_THAT(slowdown(), HasSubstr("84 C"));
  EXPECT_EQ(temperature_count_, 1) << "asked for once, as the warning is given once";
}

TEST_F(SlowdownTest, OneThatComesBackIsNotMentionedAnyMore) {
  write(3, 4);
  EXPECT_NE(slowdown(), "");
  write(8, 8);
  EXPECT_EQ(slowdown(), "");
  write(6, 4);
  EXPECT_EQ(temperature_count_, 2) << "a new slowdown";
}

TEST_F(SlowdownTest, OnTheEdgeItDoesNotGoToAndFro) {
  write(3, 4);
  for (int i = 0; i < 6; ++i) write(2, 7);  // 0.87 of the plan: neither slow nor recovered
  EXPECT_EQ(temperature_count_, 1);
}

TEST_F(SlowdownTest, DirectionsThatRunAtOnceShareTheDrive) {
  PageMemory from(32 * kRequestBytes);
  PageMemory to(32 * kRequestBytes);
  gate_.open();
  const Extent old = session_->reserve(from.size_bytes());
  session_->transfer(io::Direction::kWrite, old, from);
  gate_.close();
  const Extent fresh = session_->reserve(from.size_bytes());
  const Submitted write = session_->submit(io::Direction::kWrite, fresh, from);
  const Submitted read = session_->submit(io::Direction::kRead, old, to);
  for (int i = 0; i < 32; ++i) {  // 4 of each per second
    const std::vector<io::IoRequest> in_flight = gate_.in_flight();
    ASSERT_EQ(in_flight.size(), 2);
    clock_.advance_to(clock_.now_ns() + kSecond / 4);
    for (const io::IoRequest& request : in_flight) gate_.end(request);
  }
  session_->wait(write);
  session_->wait(read);
  EXPECT_EQ(slowdown(), "");
}

// One of two drives takes far longer than expected: it is named, and extents on the other drive do
// not wait for it.
TEST(SlowDrive, IsNamedAndHoldsNobodyElseUp) {
  constexpr int64_t kRequestBytes = 128 * kKiB;
  Gate fast, slow;
  fast.open();
  VirtualClock clock;
  std::vector<DriveSpec> drives(2);
  drives[0].io = std::make_unique<GatedIo>(fast);
  drives[1].io = std::make_unique<GatedIo>(slow);
  for (DriveSpec& drive : drives) drive.capacity_bytes = 16 * kMiB;
  drives[1].rates.write_bytes_per_second = 50 * kRequestBytes;
  StripedStoreOptions options;
  options.request_bytes = kRequestBytes;
  options.queue_depth = 1;
  StoreSession session(std::make_unique<StripedStore>(std::move(drives), options, clock));
  const Extent small = session.reserve(100'000);  // lies whole on the first drive
  ASSERT_TRUE(session.write(small, 1).status.ok());
  const Extent striped = session.reserve(14 * kMiB);
  PageMemory bytes(striped.size_bytes), small_bytes(small.size_bytes);
  const Submitted slow_write = session.submit(io::Direction::kWrite, striped, bytes);
  const Submitted quick_read = session.submit(io::Direction::kRead, small, small_bytes);
  EXPECT_TRUE(session.wait(quick_read).status.ok()) << "while the slow drive has ended nothing";
  for (std::vector<io::IoRequest> rest = slow.in_flight(); !rest.empty(); rest = slow.in_flight()) {
    clock.advance_to(clock.now_ns() + kSecond);  // a request per second where 50 are expected
    slow.end(rest.front());
  }
  EXPECT_TRUE(session.wait(slow_write).status.ok());
  slow.begun();
  const std::vector<DriveCounters> counters = session.store().counters().drives;
  EXPECT_THAT(counters[1].slowdown, HasSubstr("planned"));
  EXPECT_EQ(counters[0].slowdown, "");
}

}  // namespace
}  // namespace teraio::storage
