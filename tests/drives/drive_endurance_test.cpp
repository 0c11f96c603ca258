#include "drives/drive_endurance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace teraio::drives {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kTerabyte = 1'000'000'000'000;

TEST(DriveEnduranceTest, KnownModelsHaveARatingAndItsSource) {
  const auto rating = rated_endurance("Samsung SSD 990 PRO 2TB");
  ASSERT_TRUE(rating.has_value());
  EXPECT_EQ(rating->bytes_written, 1200 * kTerabyte);
  EXPECT_FALSE(rating->source.empty());
}

TEST(DriveEnduranceTest, ASourceSaysWhetherItIsTheMakers) {
  EXPECT_THAT(rated_endurance("Samsung SSD 990 PRO 2TB")->source, HasSubstr("samsung.com"));
  EXPECT_THAT(rated_endurance("WD_BLACK SN850X 2000GB")->source,
              StartsWith("not the maker's page: "));
}

TEST(DriveEnduranceTest, NamesThatContainOthersAreNotMixedUp) {
  EXPECT_EQ(rated_endurance("Samsung SSD 980 PRO 1TB")->bytes_written, 600 * kTerabyte);
  EXPECT_FALSE(rated_endurance("Samsung SSD 970 EVO Plus 1TB").has_value());
  EXPECT_FALSE(rated_endurance("Samsung SSD 980 2TB").has_value());
}

TEST(DriveEnduranceTest, OthersAreNotGuessed) {
  EXPECT_FALSE(rated_endurance("Samsung SSD 990 PRO 8TB").has_value());
  EXPECT_FALSE(rated_endurance("Samsung SSD 990 PRO").has_value());
  EXPECT_FALSE(rated_endurance("").has_value());
}

}  // namespace
}  // namespace teraio::drives
