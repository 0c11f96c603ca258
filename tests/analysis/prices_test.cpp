// Prices: what the file may say, and what follows from it, by hand.
#include "analysis/prices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "simulate/scenario.h"

namespace teraio::analysis {
namespace {

using namespace testing;
using ::testing::HasSubstr;

constexpr double kYearSeconds = 365.25 * 24 * 3600;

class PriceFileTest : public ::testing::Test {
 protected:
  Status status_with(const char* field, const nlohmann::json& value) {
    json[field] = value;
    std::ofstream(path) << json;
    return read_prices(path).status();
  }
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "teraio_prices_test.json";
  nlohmann::json json = {{"format", "teraio-prices/1"},
                         {"name", "server"},
                         {"source", "a test"},
                         {"currency", "EUR"},
                         {"devices", 2},
                         {"server", 100000},
                         {"server_memory_bytes", 0},
                         {"host_memory_per_gib", 7.5},
                         {"drive", 100}};
};

TEST_F(PriceFileTest, IsRead) {
  ASSERT_TRUE(status_with("service_years", 4.5).ok());
  const Prices expected{"server", "a test", "EUR", 2, 100000, 0, 7.5, 100, 4.5};
  EXPECT_EQ(*read_prices(path), expected);
}

TEST_F(PriceFileTest, WrongFieldsAreNamed) {
  EXPECT_THAT(status_with("drive", -1).message(),
              HasSubstr("drive: expected a number that is not"));
  json["drive"] = 1;
  EXPECT_THAT(status_with("devices", 0).message(), HasSubstr("devices: expected a positive"));
  json["devices"] = 1;
  EXPECT_THAT(status_with("service_years", 0).message(), HasSubstr("service_years: expected"));
  json.erase("service_years");
  json.erase("source");
  EXPECT_THAT(status_with("name", "x").message(), HasSubstr("source: expected this field"));
}

// Two devices with 100 GiB and four drives each: 72 GiB more than the server has, eight drives.
class CostTest : public ::testing::Test {
 protected:
  CostTest() {
    prices.device_count = 2;
    prices.server = 100'000;
    prices.server_memory_bytes = 128 * kGiB;
    prices.host_memory_per_gib = 10;
    prices.drive = 100;
    hardware = round_machine(1);
    hardware.drives.assign(4, hardware.drives[0]);
    run.step_ns = 2'000'000'000;
    run.ssd_bytes_written = 1000;
  }
  Prices prices;
  hardware::Hardware hardware;
  int64_t host_bytes = 100 * kGiB;
  teraio::simulate::Run run;
};

TEST_F(CostTest, MemoryThatTheServerHasCostsNothing) {
  host_bytes = 64 * kGiB;
  EXPECT_DOUBLE_EQ(cost_of(prices, hardware, host_bytes, run, {}).price, 100'000 + 800);
}

TEST_F(CostTest, MemoryOfAnyNumberOfDevicesIsPaidFor) {
  prices.device_count = int64_t{1} << 62;
  EXPECT_GT(cost_of(prices, hardware, host_bytes, run, {}).price, 1e18);
}

TEST_F(CostTest, DrivesThatWearOutAreBoughtAgain) {
  prices.service_years = 4;
  // A quarter of 1000 bytes every two seconds: two years long.
  for (hardware::Drive& drive : hardware.drives)
    drive.rated_bytes_written = static_cast<int64_t>(250 * kYearSeconds);
  EXPECT_NEAR(*drive_life_years(hardware, run.ssd_bytes_written, run.step_ns), 2, 1e-6);
  const Cost cost = cost_of(prices, hardware, host_bytes, run, 1000);
  const double per_year = 100'720 / 4.0 + 800 / 2.0;
  EXPECT_NEAR(*cost.per_million_tokens, per_year / kYearSeconds / 500 * 1e6, 1e-9);
}

TEST_F(CostTest, WhatIsNotRatedHasNoLife) {
  EXPECT_FALSE(drive_life_years(hardware, run.ssd_bytes_written, run.step_ns));
}

}  // namespace
}  // namespace teraio::analysis
