#include "storage/free_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/check.h"

namespace teraio::storage {
namespace {

using ::testing::ElementsAre;

TEST(FreeSpace, TakesTheBestFit) {
  FreeSpace space(100);
  const ByteRange a = space.take(10)[0];
  space.take(5);
  const ByteRange b = space.take(30)[0];
  space.take(5);
  space.give_back(b);
  space.give_back(a);
  EXPECT_THAT(space.take(9), ElementsAre(ByteRange{0, 9}));
  EXPECT_THAT(space.take(20), ElementsAre(ByteRange{15, 20}));
}

TEST(FreeSpace, PutsTogetherWhatIsScattered) {
  FreeSpace space(40);
  const ByteRange a = space.take(10)[0];
  space.take(10);
  const ByteRange c = space.take(20)[0];
  space.give_back(a);
  space.give_back(c);
  EXPECT_THAT(space.take(25), ElementsAre(ByteRange{20, 20}, ByteRange{0, 5}));
  EXPECT_EQ(space.free_bytes(), 5);
}

TEST(FreeSpace, GivingBackWhatIsFreeIsABrokenInvariant) {
  FreeSpace space(40);
  const ByteRange taken = space.take(20)[0];
  EXPECT_THROW(space.give_back({10, 20}), InvariantError);
  EXPECT_THROW(space.give_back({30, 5}), InvariantError);
  EXPECT_THROW(space.give_back({30, 20}), InvariantError);
  space.give_back(taken);
  EXPECT_THROW(space.give_back(taken), InvariantError);
}

TEST(FreeSpace, TakingMoreThanThereIsIsABrokenInvariant) {
  FreeSpace space(40);
  EXPECT_THROW(space.take(41), InvariantError);
  EXPECT_THROW(space.take(0), InvariantError);
}

TEST(FreeSpace, AnExactRangeLeavesWhatIsAroundIt) {
  FreeSpace space(100);
  space.take_exactly({40, 20});
  EXPECT_EQ(space.free_bytes(), 80);
  EXPECT_EQ(space.take(41).size(), 2u) << "no free range is longer than 40";
  EXPECT_THROW(space.take_exactly({40, 1}), InvariantError);
  space.give_back({40, 20});
  space.take_exactly({40, 20});
}

// No byte is in use twice and the sums agree, over a long random sequence.
TEST(FreeSpace, NeverHandsOutAByteTwice) {
  constexpr int64_t kCapacity = 512;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    FreeSpace space(kCapacity);
    std::vector<int> owners(kCapacity, 0);
    std::vector<std::vector<ByteRange>> taken;
    for (int step = 0; step < 2000; ++step) {
      const auto size = static_cast<int64_t>(1 + random() % 60);
      if (random() % 2 == 0 && size <= space.free_bytes()) {
        taken.push_back(space.take(size));
        for (const ByteRange& range : taken.back())
          for (int64_t i = 0; i < range.size_bytes; ++i)
            ASSERT_EQ(owners[range.begin_bytes + i]++, 0);
      } else if (!taken.empty()) {
        std::swap(taken[random() % taken.size()], taken.back());
        for (const ByteRange& range : taken.back()) {
          space.give_back(range);
          for (int64_t i = 0; i < range.size_bytes; ++i) --owners[range.begin_bytes + i];
        }
        taken.pop_back();
      }
      ASSERT_EQ(space.free_bytes(), std::count(owners.begin(), owners.end(), 0));
    }
  }
}

}  // namespace
}  // namespace teraio::storage
