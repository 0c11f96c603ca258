#include "base/range_set.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/check.h"

namespace teraio {
namespace {

constexpr int64_t kPageBytes = 4096;

ByteRange pages(int64_t first, int64_t count) { return {first * kPageBytes, count * kPageBytes}; }

TEST(RangeSetTest, NeighboursMerge) {
  RangeSet ranges;
  ranges.insert(pages(0, 2));
  ranges.insert(pages(5, 1));
  EXPECT_EQ(ranges.count(), 2);
  EXPECT_EQ(ranges.insert(pages(2, 3)), pages(0, 6));
  EXPECT_EQ(ranges.count(), 1);
  EXPECT_EQ(ranges.total_bytes(), 6 * kPageBytes);
}

TEST(RangeSetTest, AGapKeepsThemApart) {
  RangeSet ranges;
  ranges.insert(pages(0, 1));
  EXPECT_EQ(ranges.insert(pages(2, 1)), pages(2, 1));
  EXPECT_EQ(ranges.count(), 2);
}

TEST(RangeSetTest, BestFitIsTheSmallestThenTheLowest) {
  RangeSet ranges;
  ranges.insert(pages(20, 4));
  ranges.insert(pages(0, 8));
  ranges.insert(pages(10, 4));
  EXPECT_EQ(ranges.smallest_at_least(3 * kPageBytes), pages(10, 4));
  EXPECT_EQ(ranges.smallest_at_least(5 * kPageBytes), pages(0, 8));
  EXPECT_EQ(ranges.smallest_at_least(9 * kPageBytes), std::nullopt);
  EXPECT_EQ(ranges.largest(), pages(0, 8));
}

TEST(RangeSetTest, EmptySetHasNothing) {
  RangeSet ranges;
  EXPECT_EQ(ranges.largest(), std::nullopt);
  EXPECT_EQ(ranges.largest_bytes(), 0);
  EXPECT_EQ(ranges.smallest_at_least(kPageBytes), std::nullopt);
}

TEST(RangeSetTest, ErasingTheMiddleLeavesBothEnds) {
  RangeSet ranges;
  ranges.insert(pages(0, 10));
  ranges.erase(pages(3, 4));
  EXPECT_EQ(ranges.total_bytes(), 6 * kPageBytes);
  EXPECT_EQ(ranges.holding(pages(1, 1)), pages(0, 3));
  EXPECT_EQ(ranges.holding(pages(8, 1)), pages(7, 3));
  EXPECT_FALSE(ranges.contains(pages(3, 1)));
}

TEST(RangeSetTest, OverlapAndAbsenceAreBugsThatAreCaught) {
  RangeSet ranges;
  ranges.insert(pages(4, 4));
  EXPECT_THROW(ranges.insert(pages(0, 5)), InvariantError);
  EXPECT_THROW(ranges.insert(pages(7, 2)), InvariantError);
  EXPECT_THROW(ranges.insert(pages(4, 4)), InvariantError);
  EXPECT_THROW(ranges.erase(pages(6, 3)), InvariantError);
  EXPECT_THROW(ranges.erase(pages(0, 1)), InvariantError);
}

// Compares the set with a bitmap of pages.
TEST(RangeSetTest, AgreesWithABitmapUnderRandomUse) {
  constexpr int64_t kPages = 200;
  std::mt19937_64 random(7);
  std::vector<bool> present(kPages, false);
  RangeSet ranges;
  for (int step = 0; step < 5000; ++step) {
    const int64_t first = random() % kPages;
    const bool insert = !present[first];
    int64_t last = first;
    while (last < kPages && present[last] != insert && last - first < 20) ++last;
    const ByteRange range = pages(first, last - first);
    insert ? void(ranges.insert(range)) : ranges.erase(range);
    std::fill(present.begin() + first, present.begin() + last, insert);

    int64_t runs = 0, longest = 0, length = 0, total = 0;
    for (int64_t page = 0; page < kPages; ++page) {
      length = present[page] ? length + 1 : 0;
      runs += length == 1;
      total += present[page];
      longest = std::max(longest, length);
    }
    ASSERT_EQ(ranges.count(), runs);
    ASSERT_EQ(ranges.total_bytes(), total * kPageBytes);
    ASSERT_EQ(ranges.largest_bytes(), longest * kPageBytes);
  }
}

}  // namespace
}  // namespace teraio
