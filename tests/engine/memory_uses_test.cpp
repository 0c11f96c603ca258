#include "engine/memory_uses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace teraio::engine {
namespace {

class MemoryUsesTest : public ::testing::Test {
 protected:
  void note_free(int64_t begin, int64_t end, uint64_t op) {
    uses_.note_free(memory_.data() + begin, end - begin, op);
  }
  uint64_t last_use(int64_t begin, int64_t end) const {
    return uses_.last_use(memory_.data() + begin, end - begin);
  }

  std::array<std::byte, 64> memory_{};
  MemoryUses uses_;
};

TEST_F(MemoryUsesTest, MemoryThatNothingHasUsedHasNoLastUse) {
  EXPECT_EQ(last_use(0, 64), 0u);
  note_free(16, 32, 7);
  EXPECT_EQ(last_use(0, 16), 0u);
  EXPECT_EQ(last_use(32, 64), 0u);
  EXPECT_EQ(last_use(31, 64), 7u);
}

TEST_F(MemoryUsesTest, UntilSomebodyAsksRangesAreNotKeptApart) {
  note_free(0, 16, 9);
  note_free(16, 32, 7);
  EXPECT_EQ(last_use(16, 32), 9u);
  note_free(16, 32, 11);
  EXPECT_EQ(last_use(16, 32), 11u);
  EXPECT_EQ(last_use(0, 16), 9u);
}

TEST_F(MemoryUsesTest, ALaterUseTakesThePlaceOfThePartsThatItCovers) {
  EXPECT_EQ(last_use(0, 64), 0u);
  note_free(0, 48, 9);
  note_free(16, 32, 3);
  EXPECT_EQ(last_use(0, 16), 9u);
  EXPECT_EQ(last_use(16, 32), 3u);
  EXPECT_EQ(last_use(32, 48), 9u);
  EXPECT_EQ(last_use(20, 33), 9u);
}

TEST_F(MemoryUsesTest, RandomUsesAreAsByteByByte) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> expected(memory_.size());
  EXPECT_EQ(last_use(0, 64), 0u);
  for (uint64_t op = 1; op <= 2'000; ++op) {
    const auto begin = static_cast<int64_t>(random() % 60);
    const auto end = begin + 1 + static_cast<int64_t>(random() % (64 - begin));
    const uint64_t use = random() % 50;
    note_free(begin, end, use);
    std::fill(expected.begin() + begin, expected.begin() + end, use);
    const auto from = static_cast<int64_t>(random() % 60);
    const auto to = from + 1 + static_cast<int64_t>(random() % (64 - from));
    ASSERT_EQ(last_use(from, to), *std::max_element(expected.begin() + from, expected.begin() + to))
        << op;
  }
}

}  // namespace
}  // namespace teraio::engine
