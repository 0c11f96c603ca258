#include "device/free_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "device/device.h"

namespace teraio::device {
namespace {

constexpr int64_t kGranulePages = 4;

ByteRange pages(int64_t first, int64_t count) { return {first * kPageBytes, count * kPageBytes}; }

class FreePagesTest : public ::testing::Test {
 protected:
  int64_t granule_count() const {
    return free_.granules().total_bytes() / (kGranulePages * kPageBytes);
  }

  FreePages free_{kGranulePages * kPageBytes};
};

TEST_F(FreePagesTest, OnlyAlignedWholeGranulesCount) {
  free_.insert(pages(1, 6));
  EXPECT_EQ(granule_count(), 0);
  free_.insert(pages(7, 1));
  EXPECT_EQ(granule_count(), 1);
  EXPECT_EQ(free_.granules().largest(), pages(4, 4));
}

TEST_F(FreePagesTest, APageCanCompleteAGranuleBetweenOthers) {
  free_.insert(pages(0, 5));
  free_.insert(pages(6, 6));
  EXPECT_EQ(granule_count(), 2);
  free_.insert(pages(5, 1));
  EXPECT_EQ(free_.granules().largest(), pages(0, 12));
}

TEST_F(FreePagesTest, TakingAPageBreaksItsGranule) {
  free_.insert(pages(0, 12));
  free_.erase(pages(5, 1));
  EXPECT_EQ(granule_count(), 2);
  EXPECT_EQ(free_.pages().total_bytes(), 11 * kPageBytes);
  free_.erase(pages(4, 1));
  EXPECT_EQ(granule_count(), 2);
}

TEST_F(FreePagesTest, AgreesWithABitmapUnderRandomUse) {
  constexpr int64_t kPages = 120;
  std::mt19937_64 random(9);
  std::vector<bool> is_free(kPages, false);
  for (int step = 0; step < 5000; ++step) {
    const int64_t first = random() % kPages;
    const bool insert = !is_free[first];
    int64_t last = first;
    while (last < kPages && is_free[last] != insert && last - first < 15) ++last;
    insert ? free_.insert(pages(first, last - first)) : free_.erase(pages(first, last - first));
    std::fill(is_free.begin() + first, is_free.begin() + last, insert);

    int64_t whole = 0;
    for (int64_t page = 0; page < kPages; page += kGranulePages) {
      const auto begin = is_free.begin() + page;
      whole += std::all_of(begin, begin + kGranulePages, [](bool free) { return free; });
    }
    ASSERT_EQ(granule_count(), whole) << step;
    ASSERT_EQ(free_.fragments().total_bytes() + free_.granules().total_bytes(),
              free_.pages().total_bytes());
    ASSERT_EQ(free_.pages().total_bytes() / kPageBytes,
              std::count(is_free.begin(), is_free.end(), true));
  }
}

}  // namespace
}  // namespace teraio::device
