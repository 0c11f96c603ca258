#include "probe/sustained_rate.h"

#include <gtest/gtest.h>

#include <functional>

namespace teraio::probe {
namespace {

constexpr int64_t kStepNs = 10'000'000;

// Feeds rates over time, in bytes per second, until the measurement is over. It measures the
// directions that move at first.
SustainedRate measure(const std::function<LoadRates(double seconds)>& drive,
                      SustainedRateOptions options = {}) {
  const LoadRates usual = drive(0);
  SustainedRate rate(usual.read > 0, usual.write > 0, options);
  LoadProgress progress;
  while (!rate.is_over()) {
    const LoadRates now = drive(static_cast<double>(progress.time_ns) * 1e-9);
    progress.time_ns += kStepNs;
    progress.bytes_read += static_cast<int64_t>(now.read * 0.01);
    progress.bytes_written += static_cast<int64_t>(now.write * 0.01);
    rate.add(progress);
  }
  return rate;
}

TEST(SustainedRate, ASteadyDriveIsMeasuredSoon) {
  const SustainedRate rate = measure([](double) { return LoadRates{3e9, 0}; });
  EXPECT_TRUE(rate.has_settled());
  EXPECT_NEAR(rate.rates().read, 3e9, 1e6);
  EXPECT_EQ(rate.rates().write, 0);
  EXPECT_LE(rate.progress().time_ns, 2'100'000'000);
}

TEST(SustainedRate, WhatACacheTakesDoesNotCount) {
  const SustainedRate rate = measure([](double seconds) {
    return LoadRates{0, seconds < 1.3 ? 5.2e9 : 2.1e9};
  });
  EXPECT_TRUE(rate.has_settled());
  EXPECT_NEAR(rate.rates().write, 2.1e9, 1e7);
  EXPECT_NEAR(rate.first_rates().write, 5.2e9, 1e7);
  EXPECT_GT(rate.progress().time_ns, 2'500'000'000);
}

TEST(SustainedRate, BothDirectionsHaveToSettle) {
  const SustainedRate rate = measure([](double seconds) {
    return LoadRates{1e9, seconds < 4 ? 2e9 - 0.3e9 * seconds : 0.5e9};
  });
  EXPECT_TRUE(rate.has_settled());
  EXPECT_GT(rate.progress().time_ns, 4'000'000'000);
  EXPECT_NEAR(rate.rates().write, 0.5e9, 0.1e9);
}

TEST(SustainedRate, NoiseThatEvensOutIsSteady) {
  const SustainedRate rate = measure([](double seconds) {
    return LoadRates{0, static_cast<int>(seconds * 20) % 2 == 0 ? 1e9 : 3e9};
  });
  EXPECT_TRUE(rate.has_settled());
  EXPECT_NEAR(rate.rates().write, 2e9, 1e8);
}

TEST(SustainedRate, ADriveThatNeverSettlesIsGivenUpAndItsLatestRateTaken) {
  const SustainedRate rate = measure(
      [](double seconds) {
        return LoadRates{1e9 / (1 + seconds), 0};
      },
      {.tolerance = 0.01, .longest_ns = 5'000'000'000});
  EXPECT_FALSE(rate.has_settled());
  EXPECT_EQ(rate.progress().time_ns, 5'000'000'000);
  EXPECT_LT(rate.rates().read, 0.2e9);
}

TEST(SustainedRate, NoMoreIsWrittenThanAllowed) {
  const SustainedRate rate = measure(
      [](double seconds) {
        return LoadRates{0, 8e9 / (1 + seconds)};
      },
      {.tolerance = 0.01, .most_written_bytes = 6'000'000'000});
  EXPECT_FALSE(rate.has_settled());
  EXPECT_LT(rate.progress().bytes_written, 6'100'000'000);
}

// A standstill of the drive, or of the host on which it is measured.
TEST(SustainedRate, AStandstillIsNoSteadyRate) {
  const SustainedRate rate = measure([](double seconds) {
    return seconds < 0.5 || seconds > 4 ? LoadRates{1e9, 2e9} : LoadRates{0, 2e9};
  });
  EXPECT_TRUE(rate.has_settled());
  EXPECT_GT(rate.progress().time_ns, 4'000'000'000);
  EXPECT_NEAR(rate.rates().read, 1e9, 1e7);
}

TEST(SustainedRate, NoBoundEndsWhatHasNotBegun) {
  SustainedRate rate(true, true, {.longest_ns = 1'000'000'000});
  rate.add({2'000'000'000, 0, 500'000'000});
  EXPECT_FALSE(rate.is_over());
  rate.add({2'500'000'000, 100'000'000, 600'000'000});
  EXPECT_TRUE(rate.is_over());
  EXPECT_GT(rate.rates().read, 0);
}

TEST(SustainedRate, LessThanAnIntervalIsTakenAsItIs) {
  SustainedRate rate(true, false, {});
  EXPECT_EQ(rate.rates().read, 0);
  rate.add({100'000'000, 200'000'000, 0});
  EXPECT_FALSE(rate.has_settled());
  EXPECT_NEAR(rate.rates().read, 2e9, 1);
  EXPECT_NEAR(rate.first_rates().read, 2e9, 1);
}

}  // namespace
}  // namespace teraio::probe
