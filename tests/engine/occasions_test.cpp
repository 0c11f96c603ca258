#include "engine/occasions.h"

#include <gtest/gtest.h>

namespace teraio::engine {
namespace {

TEST(OccasionsTest, BirthsAreKnownByTheirNumberInTheOp) {
  Occasions occasions;
  const device::Occasion first = occasions.of_birth(7);
  const device::Occasion second = occasions.of_birth(7);
  EXPECT_NE(first.key, second.key);
  EXPECT_LT(first.moment, second.moment);
  EXPECT_LT(second.moment, occasions.of_birth(8).moment);
  EXPECT_EQ(occasions.of_birth(7).key, first.key) << "of the next iteration";
}

TEST(OccasionsTest, ReturnsDoNotCountAsBirths) {
  Occasions occasions;
  const uint64_t key = occasions.of_birth(7).key;
  occasions.of_birth(8);
  const device::Occasion returned = occasions.of_return(7, 3, 9);
  const device::Occasion born = occasions.of_birth(7);
  EXPECT_EQ(born.key, key);
  EXPECT_LT(returned.moment, born.moment);
}

TEST(OccasionsTest, AReturnIsKnownByTheTensorAndTheOpWheneverItComes) {
  Occasions occasions;
  const device::Occasion early = occasions.of_return(4, 3, 9);
  EXPECT_EQ(occasions.of_return(9, 3, 9).key, early.key);
  EXPECT_NE(occasions.of_return(9, 3, 8).key, early.key);
  EXPECT_NE(occasions.of_return(9, 2, 9).key, early.key);
  EXPECT_NE(occasions.of_birth(9).key, early.key);
}

TEST(OccasionsTest, WithoutAPositionOrATensorNothingIsKnown) {
  Occasions occasions;
  EXPECT_FALSE(occasions.of_birth(kLost).is_known());
  EXPECT_FALSE(occasions.of_return(kLost, 3, 9).is_known());
  EXPECT_FALSE(occasions.of_return(4, -1, 9).is_known());
}

}  // namespace
}  // namespace teraio::engine
