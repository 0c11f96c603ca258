// Changes of equipment: what each one changes, and what there cannot be.
#include "analysis/equipment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulate/scenario.h"

namespace teraio::analysis {
namespace {

using namespace testing;
using ::testing::HasSubstr;

class EquipmentTest : public ::testing::Test {
 protected:
  EquipmentTest() {
    before.hardware = round_machine(5000, 700);
    before.hardware.drives = {{"fast", 100, {60, 30}, 2.0, {}}, {"slow", 100, {20, 10}, 2.0, {}}};
    before.limits = {.device_budget_bytes = 4000, .host_limit_bytes = 300};
  }
  Equipment after(const std::vector<Change>& changes) {
    const Result<Equipment> result = changed(before, changes);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : Equipment();
  }
  Equipment before;
};

TEST_F(EquipmentTest, PresentValuesAreWhatTheLimitsLeave) {
  EXPECT_EQ(present_value(before, Quantity::kDrives), 2);
  EXPECT_EQ(present_value(before, Quantity::kHostMemory), 300);
  EXPECT_EQ(present_value(before, Quantity::kBandwidth), 80);
  EXPECT_EQ(present_value(before, Quantity::kDeviceMemory), 4000);
  EXPECT_EQ(present_value(before, Quantity::kWriteBudget), -1);
}

TEST_F(EquipmentTest, MoreDrivesAreCopiesOfTheLastOne) {
  const std::vector<hardware::Drive> drives = after({{Quantity::kDrives, 4}}).hardware.drives;
  ASSERT_EQ(drives.size(), 4);
  EXPECT_EQ(drives[0].name, "fast");
  EXPECT_EQ(drives[3].rates, (hardware::Rates{20, 10}));
  EXPECT_NE(drives[3].name, drives[2].name);
}

TEST_F(EquipmentTest, FewerDrivesAreTheFirstOnes) {
  const std::vector<hardware::Drive> drives = after({{Quantity::kDrives, 1}}).hardware.drives;
  ASSERT_EQ(drives.size(), 1);
  EXPECT_EQ(drives[0].name, "fast");
  EXPECT_TRUE(after({{Quantity::kDrives, 0}}).hardware.drives.empty());
}

TEST_F(EquipmentTest, BandwidthIsThatOfAllDrivesAndWritesFollow) {
  const std::vector<hardware::Drive> drives = after({{Quantity::kBandwidth, 160}}).hardware.drives;
  EXPECT_EQ(drives[0].rates, (hardware::Rates{120, 60}));
  EXPECT_EQ(drives[1].rates, (hardware::Rates{40, 20}));
}

TEST_F(EquipmentTest, BandwidthIsSetForTheDrivesThatThereWillBe) {
  const Equipment one = after({{Quantity::kBandwidth, 160}, {Quantity::kDrives, 1}});
  EXPECT_EQ(one.hardware.drives[0].rates, (hardware::Rates{160, 80}));
}

TEST_F(EquipmentTest, LimitsOnWhatChangesAreLifted) {
  const Equipment more = after({{Quantity::kHostMemory, 900}, {Quantity::kDeviceMemory, 6000}});
  EXPECT_EQ(present_value(more, Quantity::kHostMemory), 900);
  EXPECT_EQ(present_value(more, Quantity::kDeviceMemory), 6000);
  EXPECT_EQ(present_value(after({{Quantity::kWriteBudget, 7}}), Quantity::kWriteBudget), 7);
}

TEST_F(EquipmentTest, WhatCannotBeSaysWhy) {
  before.hardware.drives.clear();
  EXPECT_THAT(changed(before, {{Quantity::kDrives, 1}}).status().message(),
              HasSubstr("drives: the hardware file has none"));
  EXPECT_THAT(changed(before, {{Quantity::kBandwidth, 1}}).status().message(),
              HasSubstr("bandwidth: the hardware file has no drives"));
  before.hardware.host = {};
  EXPECT_THAT(changed(before, {{Quantity::kHostMemory, 5}}).status().message(),
              HasSubstr("host: expected rates"));
}

}  // namespace
}  // namespace teraio::analysis
