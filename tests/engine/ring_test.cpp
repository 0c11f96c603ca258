#include "engine/ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace teraio::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RingTest, KeepsTheNewestValuesInOrder) {
  Ring<int> ring(3);
  EXPECT_THAT(ring.values(), IsEmpty());
  for (int value = 1; value <= 3; ++value) ring.add(value);
  EXPECT_THAT(ring.values(), ElementsAre(1, 2, 3));
  EXPECT_FALSE(ring.has_lost());
  for (int value = 4; value <= 8; ++value) ring.add(value);
  EXPECT_THAT(ring.values(), ElementsAre(6, 7, 8));
  EXPECT_TRUE(ring.has_lost());
}

}  // namespace
}  // namespace teraio::engine
