#include "probe/learned_rates.h"

#include <gtest/gtest.h>

namespace teraio::probe {
namespace {

using storage::DriveCounters;

constexpr int32_t kEnough = 3;

DriveProbe known() {
  DriveProbe probe;
  probe.name = "d0";
  probe.rates.read_bytes_per_second = 2000;
  probe.rates.write_bytes_per_second = 1000;
  probe.duplex = 1;
  probe.origin = RatesOrigin::kShortProbe;
  probe.peak_rates.write_bytes_per_second = 1500;
  return probe;
}

TEST(LearnedRates, AnIdleRunTeachesNothing) {
  EXPECT_FALSE(learned_from(DriveCounters{}, known()).has_value());
}

// A training of a few steps never loads a drive for long: many of them must mend a wrong rate too.
TEST(LearnedRates, ShortRunsCountInPart) {
  DriveCounters run;
  run.reads_alone = {5000, 0, 1};
  auto learned = learned_from(run, known());
  ASSERT_TRUE(learned.has_value());
  EXPECT_EQ(learned->rates.read_bytes_per_second, 3000);
  EXPECT_EQ(learned->rates.write_bytes_per_second, 1000);
  for (int i = 0; i < 10; ++i) learned = learned_from(run, *learned);
  EXPECT_NEAR(static_cast<double>(learned->rates.read_bytes_per_second), 5000, 50);
}

TEST(LearnedRates, OneDirectionAloneLeavesTheOther) {
  DriveCounters run;
  run.writes_alone = {0, 300, kEnough};
  const auto learned = learned_from(run, known());
  ASSERT_TRUE(learned.has_value());
  EXPECT_EQ(learned->rates.read_bytes_per_second, 2000);
  EXPECT_EQ(learned->rates.write_bytes_per_second, 300);
  EXPECT_EQ(learned->origin, RatesOrigin::kRuns);
  EXPECT_EQ(learned->peak_rates.write_bytes_per_second, 1500);
  EXPECT_EQ(learned->name, "d0");
}

TEST(LearnedRates, AllThreeLoadsGiveTheDuplex) {
  DriveCounters run;
  run.reads_alone = {4000, 0, kEnough};
  run.writes_alone = {0, 2000, kEnough};
  run.both_at_once = {3000, 1500, kEnough};
  const auto learned = learned_from(run, known());
  ASSERT_TRUE(learned.has_value());
  EXPECT_EQ(learned->rates.read_bytes_per_second, 4000);
  EXPECT_EQ(learned->rates.write_bytes_per_second, 2000);
  EXPECT_DOUBLE_EQ(learned->duplex, 1.5);
  EXPECT_EQ(learned->peak_rates.write_bytes_per_second, 2000);
}

// Reads have half of the drive, so that writes would reach twice as much alone.
TEST(LearnedRates, TheMissingDirectionFollowsFromBoth) {
  DriveCounters run;
  run.reads_alone = {1000, 0, kEnough};
  run.both_at_once = {500, 200, kEnough};
  const auto learned = learned_from(run, known());
  ASSERT_TRUE(learned.has_value());
  EXPECT_EQ(learned->rates.read_bytes_per_second, 1000);
  EXPECT_EQ(learned->rates.write_bytes_per_second, 400);
}

TEST(LearnedRates, BothAtOnceAloneScaleTheDrive) {
  DriveCounters run;
  run.both_at_once = {500, 250, kEnough};
  const auto learned = learned_from(run, known());
  ASSERT_TRUE(learned.has_value());
  EXPECT_EQ(learned->rates.read_bytes_per_second, 1000);
  EXPECT_EQ(learned->rates.write_bytes_per_second, 500);
}

}  // namespace
}  // namespace teraio::probe
