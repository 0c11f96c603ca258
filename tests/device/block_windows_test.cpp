#include "device/block_windows.h"

#include <gtest/gtest.h>

#include <array>

#include "base/units.h"

namespace teraio::device {
namespace {

constexpr int64_t kWindowPage = 2 * kMiB;

Occasion occasion_at(int64_t moment) {
  return {.moment = moment, .key = static_cast<uint64_t>(moment)};
}

class BlockWindowsTest : public ::testing::Test {
 protected:
  ByteRange open_and_note(int64_t moment, int64_t page_count) {
    windows_.begin(occasion_at(moment));
    const auto block = windows_.open(page_count * kWindowPage, [](ByteRange) { return true; });
    EXPECT_TRUE(block);
    windows_.note(occasion_at(moment), *block);
    return *block;
  }

  BlockWindows windows_{{4 * kWindowPage, 8 * kWindowPage}, kWindowPage};
};

TEST_F(BlockWindowsTest, AnOccasionHasItsLastBlockIfTheSizeIsTheSame) {
  const ByteRange block = open_and_note(3, 2);
  EXPECT_EQ(windows_.last_block(occasion_at(3), block.size_bytes), block);
  EXPECT_FALSE(windows_.last_block(occasion_at(3), block.size_bytes + kPageBytes));
  EXPECT_FALSE(windows_.last_block(occasion_at(4), block.size_bytes));
}

TEST_F(BlockWindowsTest, WindowsLieBesideEachOther) {
  EXPECT_EQ(open_and_note(1, 2), (ByteRange{4 * kWindowPage, 2 * kWindowPage}));
  EXPECT_EQ(open_and_note(2, 3), (ByteRange{6 * kWindowPage, 3 * kWindowPage}));
}

TEST_F(BlockWindowsTest, WithoutMoreAddressesTheOldestVacantWindowOfTheSizeServes) {
  const ByteRange first = open_and_note(1, 3);
  const ByteRange second = open_and_note(2, 3);
  windows_.note(occasion_at(1), first);  // used since
  const auto all_vacant = [](ByteRange) { return true; };
  EXPECT_EQ(windows_.open(3 * kWindowPage, all_vacant), second);
  EXPECT_EQ(windows_.open(3 * kWindowPage, [&](ByteRange window) { return window == first; }),
            first);
  EXPECT_FALSE(windows_.open(3 * kWindowPage, [](ByteRange) { return false; }));
  EXPECT_FALSE(windows_.open(4 * kWindowPage, all_vacant)) << "no window of this size";
}

TEST_F(BlockWindowsTest, WantsAreThoseOfThisIterationAndThenOfTheNext) {
  const int64_t early = open_and_note(10, 1).begin_bytes;
  const int64_t late = open_and_note(90, 1).begin_bytes;
  windows_.begin(occasion_at(99));
  windows_.begin(occasion_at(40));
  EXPECT_EQ(windows_.moments_until_wanted(late, {}), 50);
  EXPECT_EQ(windows_.moments_until_wanted(early, {}), 70) << "in the next iteration";
  EXPECT_EQ(windows_.moments_until_wanted(early, std::array{late}), 50) << "the first want counts";
  EXPECT_EQ(windows_.moments_until_wanted(0, {}), 100) << "never wanted so far";
}

}  // namespace
}  // namespace teraio::device
