#include "storage/drive_meter.h"

#include <gtest/gtest.h>

namespace teraio::storage {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int32_t kDepth = 8;

class DriveMeterTest : public ::testing::Test {
 protected:
  // Moves `size_bytes` in `duration_ns` with `in_flight` requests in flight.
  bool move(int64_t size_bytes, int64_t duration_ns, int32_t in_flight) {
    meter_.note(io::Direction::kRead, in_flight, now_ns_);
    now_ns_ += duration_ns;
    meter_.add_bytes(io::Direction::kRead, size_bytes);
    return meter_.note(io::Direction::kRead, 0, now_ns_);
  }

  DriveMeter meter_{"drive", "path", {kDepth, 2}};
  int64_t now_ns_ = 5 * kSecond;
};

TEST_F(DriveMeterTest, CountsBusyTimeOnlyWhileSomethingIsInFlight) {
  move(1000, kSecond, 1);
  now_ns_ += 10 * kSecond;
  move(500, kSecond, 2);
  const DriveCounters counters = meter_.counters(now_ns_ + kSecond);
  EXPECT_EQ(counters.read_busy_ns, 2 * kSecond);
  EXPECT_EQ(counters.bytes_read, 1500);
  EXPECT_EQ(counters.bytes_written, 0);
  EXPECT_EQ(counters.write_busy_ns, 0);
}

TEST_F(DriveMeterTest, BusyTimeGrowsWithoutResults) {
  meter_.note(io::Direction::kWrite, 1, now_ns_);
  EXPECT_EQ(meter_.counters(now_ns_ + kSecond).write_busy_ns, kSecond);
}

TEST_F(DriveMeterTest, TheRateIsThatUnderLoad) {
  EXPECT_FALSE(move(400, kSecond / 2, kDepth));
  EXPECT_EQ(meter_.rate(io::Direction::kRead), 0);
  EXPECT_TRUE(move(400, kSecond / 2, kDepth / 2));
  EXPECT_EQ(meter_.rate(io::Direction::kRead), 800);
}

TEST_F(DriveMeterTest, ALightlyUsedDriveHasNoRate) {
  EXPECT_FALSE(move(400, 10 * kSecond, kDepth / 2 - 1));
  EXPECT_EQ(meter_.rate(io::Direction::kRead), 0);
}

// One write at a time shows the latency of a write, not the drive's rate.
TEST_F(DriveMeterTest, AFewRequestsHaveToBeInFlightForARate) {
  const auto write = [this](int32_t in_flight) {
    meter_.note(io::Direction::kWrite, in_flight, now_ns_);
    now_ns_ += 2 * kSecond;
    meter_.add_bytes(io::Direction::kWrite, 500);
    return meter_.note(io::Direction::kWrite, 0, now_ns_);
  };
  EXPECT_FALSE(write(1));
  EXPECT_TRUE(write(2));
  EXPECT_EQ(meter_.rate(io::Direction::kWrite), 250);
}

TEST_F(DriveMeterTest, TheRateFollowsTheDrive) {
  move(1000, kSecond, kDepth);
  for (int i = 0; i < 10; ++i) move(100, kSecond, kDepth);
  EXPECT_NEAR(meter_.rate(io::Direction::kRead), 100, 5);
  EXPECT_EQ(meter_.counters(now_ns_).recent_rates.read_bytes_per_second,
            static_cast<int64_t>(meter_.rate(io::Direction::kRead)));
}

// The loads of a probe: what a run has measured of each.
class DriveLoadsTest : public DriveMeterTest {
 protected:
  using PerDirection = std::array<int64_t, 2>;  // reads, writes

  // Moves `bytes` in `duration_ns` with `in_flight` requests in flight, in that time and after it.
  void pass(int64_t duration_ns, PerDirection in_flight, PerDirection bytes) {
    note(in_flight);
    now_ns_ += duration_ns;
    for (size_t i = 0; i < 2; ++i) meter_.add_bytes(kDirections[i], bytes[i]);
    note(in_flight);
  }

  static constexpr io::Direction kDirections[] = {io::Direction::kRead, io::Direction::kWrite};

 private:
  void note(PerDirection in_flight) {
    for (size_t i = 0; i < 2; ++i)
      meter_.note(kDirections[i], static_cast<int32_t>(in_flight[i]), now_ns_);
  }
};

TEST_F(DriveLoadsTest, RatesAreKeptByLoad) {
  const auto pass_a_second = [this](PerDirection in_flight, PerDirection bytes) {
    // Those in flight at the begin, one that counts, and one that ends the sample.
    for (int i = 0; i < kDepth + 2; ++i) pass(kSecond, in_flight, bytes);
  };
  pass_a_second({kDepth, 0}, {400, 0});
  pass_a_second({0, 2}, {0, 300});
  pass_a_second({kDepth, 2}, {200, 100});
  pass_a_second({kDepth, 1}, {900, 900});  // writes do not load the drive, and are not absent
  const DriveCounters counters = meter_.counters(now_ns_);
  EXPECT_EQ(counters.reads_alone.read_bytes_per_second, 400);
  EXPECT_EQ(counters.reads_alone.write_bytes_per_second, 0);
  EXPECT_EQ(counters.reads_alone.sample_count, 1);
  EXPECT_EQ(counters.writes_alone.write_bytes_per_second, 300);
  EXPECT_EQ(counters.both_at_once.read_bytes_per_second, 200);
  EXPECT_EQ(counters.both_at_once.write_bytes_per_second, 100);
}

// The drive writes a request in 10 ms. Reads end 2 ms before the first of three writes does, so
// that two of them are written while writes alone load the drive.
TEST_F(DriveLoadsTest, WhatWasUnderWayBeforeALoadDoesNotCount) {
  constexpr int64_t kMs = kSecond / 1000;
  for (int i = 0; i < 400; ++i) {
    pass(8 * kMs, {1, 2}, {0, 0});
    pass(2 * kMs, {0, 2}, {0, 1000});
    for (int j = 0; j < 2; ++j) pass(10 * kMs, {0, 2}, {0, 1000});
    pass(3 * kMs, {0, 2}, {0, 0});  // a part of the next one
  }
  const LoadedRates alone = meter_.counters(now_ns_).writes_alone;
  EXPECT_GE(alone.sample_count, 3);
  EXPECT_NEAR(alone.write_bytes_per_second, 100'000, 1);
}

// The drive takes 10 ms for eight reads at once, which end within one more.
TEST_F(DriveLoadsTest, ABurstIsNoLoad) {
  constexpr int64_t kMs = kSecond / 1000;
  for (int i = 0; i < 2000; ++i) {
    pass(10 * kMs, {kDepth, 0}, {0, 0});
    for (int64_t left = kDepth; left > 0; --left) pass(kMs / kDepth, {left, 0}, {1000, 0});
    pass(10 * kMs, {0, 0}, {0, 0});
  }
  EXPECT_EQ(meter_.counters(now_ns_).reads_alone.sample_count, 0);
}

}  // namespace
}  // namespace teraio::storage
