// What transfers take from the channels, the joint limit and the link.
#include "planner/bandwidth_ledger.h"

#include <gtest/gtest.h>

#include "plan/scenario.h"

namespace teraio::planner {
namespace {

using testing::machine;

std::vector<double> ops_of_100_ns() { return std::vector<double>(10, 100.0); }

TEST(BandwidthLedger, AWriteEndsAsEarlyAsItCan) {
  BandwidthLedger ledger(machine(0), ops_of_100_ns());
  EXPECT_EQ(ledger.write_end(plan::Tier::kSsd, 2, 12, 250), 5);
  ledger.book(plan::Tier::kSsd, Direction::kWrite, 2, 12, 250);
  EXPECT_EQ(ledger.write_end(plan::Tier::kSsd, 2, 12, 50), 5);  // what is left of op 4
  EXPECT_EQ(ledger.write_end(plan::Tier::kSsd, 2, 12, 51), 6);
  EXPECT_EQ(ledger.write_end(plan::Tier::kSsd, 2, 5, 51), std::nullopt);
}

TEST(BandwidthLedger, AReadStartsAsLateAsItCan) {
  BandwidthLedger ledger(machine(0), ops_of_100_ns());
  EXPECT_EQ(ledger.read_start(plan::Tier::kSsd, 0, 10, 250), 7);
  ledger.book(plan::Tier::kSsd, Direction::kRead, 0, 10, 250);
  EXPECT_EQ(ledger.read_start(plan::Tier::kSsd, 0, 10, 100), 6);
  EXPECT_EQ(ledger.read_start(plan::Tier::kSsd, 7, 10, 100), std::nullopt);
}

TEST(BandwidthLedger, TransfersGoOnOverTheEndOfTheIteration) {
  BandwidthLedger ledger(machine(0), ops_of_100_ns());
  EXPECT_EQ(ledger.write_end(plan::Tier::kSsd, 9, 15, 300), 12);
  EXPECT_EQ(ledger.read_start(plan::Tier::kSsd, 5, 11, 300), 8);
}

TEST(BandwidthLedger, AReleaseGivesBack) {
  BandwidthLedger ledger(machine(0), ops_of_100_ns());
  const BandwidthLedger::Booking booking =
      ledger.book(plan::Tier::kSsd, Direction::kWrite, 0, 10, 1000);
  EXPECT_EQ(ledger.write_end(plan::Tier::kSsd, 0, 10, 1), std::nullopt);
  ledger.release(booking);
  EXPECT_EQ(ledger.write_end(plan::Tier::kSsd, 0, 10, 1000), 10);
}

TEST(BandwidthLedger, DrivesThatShareTheirDirectionsAreBookedJointly) {
  hardware::Hardware hardware = machine(0);
  hardware.drives[0].duplex = 1.0;
  BandwidthLedger ledger(hardware, ops_of_100_ns());
  ledger.book(plan::Tier::kSsd, Direction::kWrite, 0, 10, 500);
  EXPECT_EQ(ledger.read_start(plan::Tier::kSsd, 0, 5, 1), std::nullopt);
  EXPECT_EQ(ledger.read_start(plan::Tier::kSsd, 0, 10, 500), 5);
}

TEST(BandwidthLedger, TheLinkIsSharedByTheTiers) {
  hardware::Hardware hardware = machine(0, 100);
  hardware.device_link = {1'000'000'000, 1'000'000'000};
  BandwidthLedger ledger(hardware, ops_of_100_ns());
  ledger.book(plan::Tier::kSsd, Direction::kRead, 0, 10, 200);
  EXPECT_EQ(ledger.read_start(plan::Tier::kHost, 0, 10, 100), 7);
}

TEST(BandwidthLedger, EveryTransferPaysTheLatency) {
  hardware::Hardware hardware = machine(0);
  hardware.request_latency_ns = 60;
  const BandwidthLedger ledger(hardware, ops_of_100_ns());
  EXPECT_EQ(ledger.write_end(plan::Tier::kSsd, 0, 10, 40), 1);
  EXPECT_EQ(ledger.write_end(plan::Tier::kSsd, 0, 10, 41), 2);
}

}  // namespace
}  // namespace teraio::planner
