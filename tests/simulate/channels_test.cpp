#include "simulate/channels.h"

#include <gtest/gtest.h>

#include "simulate/scenario.h"

namespace teraio::simulate {
namespace {

using namespace testing;

// Rates with all but the named channels idle: {ssd in, host in, ssd out, host out}.
std::array<double, 4> rates(const hardware::Hardware& hardware, std::array<bool, 4> moving) {
  return channel_rates(hardware, moving);
}

hardware::Hardware machine(double duplex, int64_t link) {
  hardware::Hardware hardware = round_machine(1000, 1000);
  hardware.drives[0].duplex = duplex;
  hardware.device_link = {link * kBytesPerNs / 10, link * kBytesPerNs / 10};
  return hardware;
}

TEST(ChannelRates, AloneAtTheTiersRate) {
  EXPECT_DOUBLE_EQ(rates(machine(1.0, 1000), {true, false, false, false})[0], 1.0);
  EXPECT_DOUBLE_EQ(rates(machine(2.0, 1000), {false, true, false, false})[1], 1.0);
}

TEST(ChannelRates, DuplexSharesTheDrive) {
  EXPECT_DOUBLE_EQ(rates(machine(1.0, 1000), {true, false, true, false})[0], 0.5);
  EXPECT_DOUBLE_EQ(rates(machine(1.5, 1000), {true, false, true, false})[2], 0.75);
  EXPECT_DOUBLE_EQ(rates(machine(2.0, 1000), {true, false, true, false})[2], 1.0);
}

TEST(ChannelRates, WhatOneDirectionCannotUseGoesToTheOther) {
  hardware::Hardware hardware = machine(1.0, 1000);
  hardware.device_link.read_bytes_per_second = kBytesPerNs / 5;
  const auto both = rates(hardware, {true, false, true, false});
  EXPECT_DOUBLE_EQ(both[0], 0.2);
  EXPECT_DOUBLE_EQ(both[2], 0.8);
}

TEST(ChannelRates, TheLinkIsSharedMaxMinFairly) {
  hardware::Hardware hardware = machine(2.0, 12);  // link: 1.2 bytes per ns
  const auto equal = rates(hardware, {true, true, false, false});
  EXPECT_DOUBLE_EQ(equal[0], 0.6);
  EXPECT_DOUBLE_EQ(equal[1], 0.6);
  hardware.host.rates.read_bytes_per_second = kBytesPerNs / 5;
  const auto small_host = rates(hardware, {true, true, false, false});
  EXPECT_DOUBLE_EQ(small_host[0], 1.0);
  EXPECT_DOUBLE_EQ(small_host[1], 0.2);
}

TEST(Channels, LatencyUsesNoBandwidth) {
  hardware::Hardware hardware = machine(1.0, 1000);
  hardware.request_latency_ns = 100;
  Channels channels(hardware);
  std::vector<std::pair<int32_t, int64_t>> ends;
  const auto run_to_end = [&] {
    while (channels.next_event_ns() != kNoTime) {
      const int64_t now_ns = channels.next_event_ns();
      channels.advance([&](int32_t transfer) { ends.emplace_back(transfer, now_ns); });
    }
  };
  channels.start(0, 7, 1000, 0);
  run_to_end();
  channels.start(0, 8, 1000, 2000);
  channels.start(2, 9, 50, 2000);
  run_to_end();
  // 7 alone: 100 + 1000. 9 shares the drive for 100 ns after its latency, in which 8 moves 50.
  EXPECT_EQ(ends, (std::vector<std::pair<int32_t, int64_t>>{{7, 1100}, {9, 2200}, {8, 3150}}));
}

TEST(Channels, TimeMayBeRebasedInFlight) {
  Channels channels(machine(2.0, 1000));
  channels.start(0, 1, 1000, 500);
  channels.rebase(800);
  EXPECT_EQ(channels.next_event_ns(), 700);
  int ended = 0;
  channels.advance([&](int32_t) { ++ended; });
  EXPECT_EQ(ended, 1);
  EXPECT_TRUE(channels.idle(0));
}

}  // namespace
}  // namespace teraio::simulate
