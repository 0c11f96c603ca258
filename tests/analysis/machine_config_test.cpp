// Values of sweep parameters: what each one values, and which machines are impossible.
#include "analysis/machine_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulate/scenario.h"

namespace teraio::analysis {
namespace {

using namespace testing;
using ::testing::HasSubstr;

class MachineConfigTest : public ::testing::Test {
 protected:
  MachineConfigTest() {
    before.hardware = round_machine(5000, 700);
    before.hardware.drives = {{"fast", 100, {60, 30}, 2.0, {}}, {"slow", 100, {20, 10}, 2.0, {}}};
    before.limits = {.device_budget_bytes = 4000, .host_limit_bytes = 300};
  }
  MachineConfig after(const std::vector<ParameterValue>& values) {
    const Result<MachineConfig> result = with_values(before, values);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : MachineConfig();
  }
  MachineConfig before;
};

TEST_F(MachineConfigTest, PresentValuesAreWhatTheLimitsLeave) {
  EXPECT_EQ(current_value(before, SweepParameter::kDrives), 2);
  EXPECT_EQ(current_value(before, SweepParameter::kHostMemory), 300);
  EXPECT_EQ(current_value(before, SweepParameter::kBandwidth), 80);
  EXPECT_EQ(current_value(before, SweepParameter::kDeviceMemory), 4000);
  EXPECT_EQ(current_value(before, SweepParameter::kWriteBudget), -1);
}

TEST_F(MachineConfigTest, MoreDrivesAreCopiesOfTheLastOne) {
  const std::vector<hardware::Drive> drives = after({{SweepParameter::kDrives, 4}}).hardware.drives;
  ASSERT_EQ(drives.size(), 4);
  EXPECT_EQ(drives[0].name, "fast");
  EXPECT_EQ(drives[3].rates, (Rates{20, 10}));
  EXPECT_NE(drives[3].name, drives[2].name);
}

TEST_F(MachineConfigTest, FewerDrivesAreTheFirstOnes) {
  const std::vector<hardware::Drive> drives = after({{SweepParameter::kDrives, 1}}).hardware.drives;
  ASSERT_EQ(drives.size(), 1);
  EXPECT_EQ(drives[0].name, "fast");
  EXPECT_TRUE(after({{SweepParameter::kDrives, 0}}).hardware.drives.empty());
}

TEST_F(MachineConfigTest, BandwidthIsThatOfAllDrivesAndWritesFollow) {
  const std::vector<hardware::Drive> drives =
      after({{SweepParameter::kBandwidth, 160}}).hardware.drives;
  EXPECT_EQ(drives[0].rates, (Rates{120, 60}));
  EXPECT_EQ(drives[1].rates, (Rates{40, 20}));
}

TEST_F(MachineConfigTest, BandwidthIsSetForTheDrivesThatThereWillBe) {
  const MachineConfig one =
      after({{SweepParameter::kBandwidth, 160}, {SweepParameter::kDrives, 1}});
  EXPECT_EQ(one.hardware.drives[0].rates, (Rates{160, 80}));
}

TEST_F(MachineConfigTest, LimitsOnWhatChangesAreLifted) {
  const MachineConfig more =
      after({{SweepParameter::kHostMemory, 900}, {SweepParameter::kDeviceMemory, 6000}});
  EXPECT_EQ(current_value(more, SweepParameter::kHostMemory), 900);
  EXPECT_EQ(current_value(more, SweepParameter::kDeviceMemory), 6000);
  EXPECT_EQ(current_value(after({{SweepParameter::kWriteBudget, 7}}), SweepParameter::kWriteBudget),
            7);
}

TEST_F(MachineConfigTest, WhatCannotBeSaysWhy) {
  before.hardware.drives.clear();
  EXPECT_THAT(with_values(before, {{SweepParameter::kDrives, 1}}).status().message(),
              HasSubstr("drives: the hardware file has none"));
  EXPECT_THAT(with_values(before, {{SweepParameter::kBandwidth, 1}}).status().message(),
              HasSubstr("bandwidth: the hardware file has no drives"));
  before.hardware.host = {};
  EXPECT_THAT(with_values(before, {{SweepParameter::kHostMemory, 5}}).status().message(),
              HasSubstr("host: expected rates"));
}

}  // namespace
}  // namespace teraio::analysis
