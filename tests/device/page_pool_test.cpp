#include "device/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "base/units.h"
#include "device/device.h"
#include "device/host_address_space.h"

namespace teraio::device {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// The host's memory, on a system that cannot move pages.
class ImmobileSpace final : public AddressSpace {
 public:
  explicit ImmobileSpace(std::unique_ptr<AddressSpace> behind)
      : AddressSpace(behind->at(0), behind->size_bytes(), behind->page_bytes()),
        behind_(std::move(behind)) {}

  bool commit(ByteRange range) override { return behind_->commit(range); }
  bool decommit(ByteRange range) override { return behind_->decommit(range); }
  int64_t move(ByteRange from, int64_t to_bytes) override {
    return replace(from, to_bytes) ? from.size_bytes : 0;
  }

 private:
  std::unique_ptr<AddressSpace> behind_;
};

class PagePoolTest : public ::testing::Test {
 protected:
  // Uses granules of one page where a test is not about granules.
  void open(int64_t address_bytes,
            PagePoolOptions options = {.granule_bytes = kPageBytes, .mapping_limit = 1000}) {
    auto space = HostAddressSpace::reserve(address_bytes, address_bytes);
    ASSERT_TRUE(space.ok());
    space_ = space->get();
    pool_ = std::make_unique<PagePool>(std::move(*space), options);
  }

  std::byte* take(int64_t page_count, int64_t growth_limit_bytes = 0) {
    std::byte* block = pool_->allocate(page_count * kPageBytes, growth_limit_bytes);
    if (block != nullptr) std::memset(block, 1, page_count * kPageBytes);
    return block;
  }
  void give(std::byte* block, int64_t page_count) {
    pool_->release(block, page_count * kPageBytes);
  }

  // Makes holes of these numbers of pages, each surrounded by blocks of one page.
  void make_holes(const std::vector<int64_t>& page_counts) {
    std::vector<std::byte*> blocks;
    take(1, kPageBytes);
    for (const int64_t page_count : page_counts) {
      blocks.push_back(take(page_count, page_count * kPageBytes));
      take(1, kPageBytes);
    }
    for (size_t i = 0; i < blocks.size(); ++i) give(blocks[i], page_counts[i]);
  }
  void make_holes(int64_t count, int64_t page_count) {
    make_holes(std::vector<int64_t>(count, page_count));
  }

  HostAddressSpace* space_ = nullptr;
  std::unique_ptr<PagePool> pool_;
};

// Granules of four pages. Free are a granule and, in two others, three pages and one.
TEST_F(PagePoolTest, ShortageCountsWholeGranules) {
  open(64 * kMiB, {.granule_bytes = 4 * kPageBytes, .mapping_limit = 1000});
  std::byte* first = take(12, 12 * kPageBytes);
  ASSERT_NE(first, nullptr);
  give(first, 3);
  give(first + 7 * kPageBytes, 5);
  ASSERT_EQ(pool_->free_bytes(), 8 * kPageBytes);
  EXPECT_EQ(pool_->shortage_bytes(5 * kPageBytes, 0), 0) << "beside the block";
  EXPECT_EQ(pool_->shortage_bytes(8 * kPageBytes, 0), 4 * kPageBytes);
  EXPECT_EQ(pool_->shortage_bytes(8 * kPageBytes, 4 * kPageBytes), 0);
  EXPECT_EQ(pool_->shortage_bytes(8 * kPageBytes, 3 * kPageBytes), 4 * kPageBytes);
}

TEST_F(PagePoolTest, GrowsByNoMoreThanItIsAllowed) {
  open(64 * kMiB);
  EXPECT_EQ(take(10, 9 * kPageBytes), nullptr);
  EXPECT_EQ(take(10, -1), nullptr);
  EXPECT_NE(take(10, 10 * kPageBytes), nullptr);
  EXPECT_EQ(pool_->held_bytes(), 10 * kPageBytes);
}

TEST_F(PagePoolTest, GrowsByWholePagesOnly) {
  open(64 * kMiB);
  EXPECT_NE(take(1, 3 * kPageBytes - 1), nullptr);
  EXPECT_EQ(pool_->held_bytes(), 2 * kPageBytes);
}

TEST_F(PagePoolTest, GrowthJoinsTheFreeTail) {
  open(64 * kMiB);
  give(take(10, 10 * kPageBytes), 10);
  EXPECT_NE(take(15, 5 * kPageBytes), nullptr);
  EXPECT_EQ(pool_->held_bytes(), 15 * kPageBytes);
  EXPECT_EQ(pool_->stitch_count(), 0);
}

TEST_F(PagePoolTest, StitchesFewLargePiecesFirst) {
  open(64 * kMiB);
  make_holes({2, 2, 2, 2, 50, 2, 2, 2, 2, 50, 2, 2});
  const int64_t before = pool_->mapping_count();
  EXPECT_NE(take(100), nullptr);
  EXPECT_LE(pool_->mapping_count(), before + 8);
  EXPECT_EQ(pool_->free_bytes(), 20 * kPageBytes);
}

TEST_F(PagePoolTest, StitchingAndGrowthTogether) {
  open(64 * kMiB);
  make_holes(4, 5);
  EXPECT_NE(take(30, 10 * kPageBytes), nullptr);
  EXPECT_EQ(pool_->free_bytes(), 0);
  EXPECT_EQ(pool_->stitch_count(), 1);
}

TEST_F(PagePoolTest, OnePageTooFewIsRefused) {
  open(64 * kMiB);
  make_holes(4, 5);
  EXPECT_EQ(take(21), nullptr);
  EXPECT_EQ(pool_->free_bytes(), 20 * kPageBytes);
  EXPECT_NE(take(20), nullptr);
}

TEST_F(PagePoolTest, BlocksInUseAreNotDisturbed) {
  open(64 * kMiB);
  std::byte* kept = take(3, 3 * kPageBytes);
  std::memset(kept, 77, 3 * kPageBytes);
  make_holes(30, 7);
  ASSERT_NE(take(200), nullptr);
  for (int64_t i = 0; i < 3 * kPageBytes; ++i) ASSERT_EQ(kept[i], std::byte{77});
}

TEST_F(PagePoolTest, StopsStitchingAtTheLimitOfMappings) {
  open(64 * kMiB, {.granule_bytes = kPageBytes, .mapping_limit = 20});
  make_holes(100, 1);
  EXPECT_EQ(take(100), nullptr);
  EXPECT_LE(pool_->mapping_count(), 24);
  EXPECT_EQ(pool_->free_bytes(), 100 * kPageBytes);
  EXPECT_NE(take(1), nullptr);
}

TEST_F(PagePoolTest, MappingsAreCountedDownWhenRangesEmpty) {
  open(64 * kMiB);
  make_holes(50, 3);
  std::byte* block = take(150);
  ASSERT_NE(block, nullptr);
  EXPECT_GT(pool_->mapping_count(), 50);
  give(block, 150);
  pool_->trim(kNoLimit);
  EXPECT_EQ(pool_->free_bytes(), 0);
  EXPECT_EQ(pool_->held_bytes(), 51 * kPageBytes);
}

TEST_F(PagePoolTest, AddressesAreReusedForEver) {
  open(4 * kMiB);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::byte*> blocks;
    for (int i = 0; i < 10; ++i) blocks.push_back(take(10, 100 * kPageBytes - pool_->held_bytes()));
    for (int i = 0; i < 10; i += 2) give(blocks[i], 10);
    std::byte* large = take(50);
    ASSERT_NE(large, nullptr) << round;
    for (int i = 1; i < 10; i += 2) give(blocks[i], 10);
    give(large, 50);
  }
  EXPECT_GE(pool_->stitch_count(), 100);
  EXPECT_EQ(pool_->held_bytes(), 100 * kPageBytes);
}

TEST_F(PagePoolTest, TrimGivesBackWhatWasAskedFor) {
  open(64 * kMiB);
  give(take(100, 100 * kPageBytes), 100);
  pool_->trim(30 * kPageBytes - 1);
  EXPECT_EQ(pool_->held_bytes(), 70 * kPageBytes);
  pool_->trim(0);
  EXPECT_EQ(pool_->held_bytes(), 70 * kPageBytes);
  EXPECT_NE(take(70), nullptr);
}

TEST_F(PagePoolTest, WithoutMovablePagesItWorksWithNewOnes) {
  auto space = HostAddressSpace::reserve(64 * kMiB, 64 * kMiB);
  ASSERT_TRUE(space.ok());
  pool_ = std::make_unique<PagePool>(
      std::make_unique<ImmobileSpace>(std::move(*space)),
      PagePoolOptions{.granule_bytes = kPageBytes, .mapping_limit = 1000});
  make_holes(10, 10);
  const int64_t held_bytes = pool_->held_bytes();
  EXPECT_NE(take(100), nullptr);
  EXPECT_EQ(pool_->held_bytes(), held_bytes);
}

TEST_F(PagePoolTest, TheLargestBlockIsTheTailOrARange) {
  open(4 * kMiB);
  EXPECT_EQ(pool_->largest_bytes(kNoLimit), 4 * kMiB);
  EXPECT_EQ(pool_->largest_bytes(10 * kPageBytes), 10 * kPageBytes);
  EXPECT_EQ(pool_->largest_bytes(-5), 0);
  make_holes(1, 20);
  EXPECT_EQ(pool_->largest_bytes(0), 20 * kPageBytes);
  EXPECT_EQ(pool_->largest_bytes(30 * kPageBytes), 30 * kPageBytes);
}

TEST_F(PagePoolTest, RunsOutOfAddressesWithoutHarm) {
  open(4 * kMiB);
  EXPECT_EQ(take(1025, kNoLimit), nullptr);
  EXPECT_NE(take(1024, kNoLimit), nullptr);
  EXPECT_EQ(take(1, kNoLimit), nullptr);
}

// Uses granules of 8 pages.
class PagePoolGranuleTest : public PagePoolTest {
 protected:
  static constexpr int64_t kGranulePages = 8;

  PagePoolGranuleTest() {
    open(64 * kMiB, {.granule_bytes = kGranulePages * kPageBytes, .mapping_limit = 1000});
  }

  bool is_on_granule(const std::byte* block) const {
    return space_->offset_of(block) % (kGranulePages * kPageBytes) == 0;
  }
};

TEST_F(PagePoolGranuleTest, LargeBlocksBeginOnAGranule) {
  give(take(200, kNoLimit), 200);
  take(3);
  EXPECT_TRUE(is_on_granule(take(33)));
  EXPECT_TRUE(is_on_granule(take(40)));
}

TEST_F(PagePoolGranuleTest, SmallBlocksUseWhatIsLeftBesideLargeOnes) {
  give(take(200, kNoLimit), 200);
  std::byte* large = take(33);
  EXPECT_EQ(take(5), large + 33 * kPageBytes);
}

// Pages 8 to 11 of the first hole remain when its granule is used elsewhere. The next block of that
// size then needs one whole granule there, and two anywhere else.
TEST_F(PagePoolGranuleTest, ABlockUsesWhatIsLeftOfItsNeighboursGranule) {
  std::byte* first = take(12, kNoLimit);
  take(12, kNoLimit);
  std::byte* third = take(24, kNoLimit);
  take(16, kNoLimit);
  give(first, 12);
  give(third, 24);
  ASSERT_NE(take(32), nullptr);
  give(take(8, 8 * kPageBytes), 8);
  EXPECT_EQ(take(12), first);
}

// Each block takes one whole granule and one page of a fragment; no second granule is split.
TEST_F(PagePoolGranuleTest, ThePartOfAGranuleIsPatchedFromFragments) {
  make_holes({3, 8, 3, 8});
  const int64_t held_bytes = pool_->held_bytes();
  EXPECT_NE(take(9), nullptr);
  EXPECT_NE(take(9), nullptr);
  EXPECT_EQ(pool_->held_bytes(), held_bytes);
  EXPECT_LE(pool_->stitch_count(), 2) << "an allocation counts once";
}

TEST_F(PagePoolGranuleTest, FragmentsAreGivenUpForWholeGranules) {
  make_holes(std::vector<int64_t>(30, 5));
  const int64_t held_bytes = pool_->held_bytes();
  EXPECT_NE(take(100), nullptr);
  EXPECT_LE(pool_->held_bytes(), held_bytes);
  EXPECT_GE(pool_->free_bytes(), 0);
}

TEST_F(PagePoolGranuleTest, TheLastFragmentsAreForTheUtmostEffortOnly) {
  make_holes({5, 5, 5});
  EXPECT_EQ(take(15), nullptr);
  EXPECT_EQ(pool_->stitch_count(), 0);
  EXPECT_NE(pool_->allocate(15 * kPageBytes, 0, Effort::kUtmost), nullptr);
  EXPECT_EQ(pool_->stitch_count(), 1);
}

TEST_F(PagePoolGranuleTest, TheLastPagesOfAGrowthLimitAreUsed) {
  EXPECT_NE(take(45, 45 * kPageBytes), nullptr);
  EXPECT_EQ(pool_->held_bytes(), 45 * kPageBytes);
}

TEST_F(PagePoolGranuleTest, AFragmentledRangeIsReplacedNotMoved) {
  make_holes(std::vector<int64_t>(128, 1));
  std::byte* fragmented = pool_->allocate(128 * kPageBytes, 0, Effort::kUtmost);
  ASSERT_NE(fragmented, nullptr);
  const int64_t fragmented_count = pool_->mapping_count();
  take(1, kPageBytes);  // behind it, so that the pool cannot simply extend it
  give(fragmented, 128);
  ASSERT_NE(pool_->allocate(129 * kPageBytes, kPageBytes, Effort::kUtmost), nullptr);
  EXPECT_LT(pool_->mapping_count(), fragmented_count - 100);
}

// The pages of such a granule have one mapping per piece, and no huge page.
TEST_F(PagePoolGranuleTest, AGranuleOfPiecesIsExchangedForANewOneWhenItIsFree) {
  make_holes({5, 5, 5, 5, 5});
  std::byte* pieces = pool_->allocate(24 * kPageBytes, 0, Effort::kUtmost);
  ASSERT_NE(pieces, nullptr);
  std::memset(pieces, 1, 24 * kPageBytes);
  const int64_t held_bytes = pool_->held_bytes();
  const int64_t mapping_count = pool_->mapping_count();
  give(pieces, 24);
  EXPECT_EQ(pool_->held_bytes(), held_bytes);
  EXPECT_LE(pool_->mapping_count(), mapping_count);
  ASSERT_EQ(pool_->allocate(24 * kPageBytes, 0), pieces);
  EXPECT_EQ(std::count(pieces, pieces + 24 * kPageBytes, std::byte{0}),
            2 * kGranulePages * kPageBytes);
}

TEST_F(PagePoolGranuleTest, AWholeGranuleIsReusedAsItIs) {
  std::byte* whole = take(16, 16 * kPageBytes);
  give(whole, 16);
  ASSERT_EQ(pool_->allocate(16 * kPageBytes, 0), whole);
  EXPECT_EQ(whole[0], std::byte{1});
}

// The number of mappings of a long run of mixed sizes must not grow with its length.
TEST_F(PagePoolGranuleTest, MappingsStayFewForEver) {
  constexpr int64_t kBudgetBytes = 16 * kMiB;
  std::mt19937_64 random(3);
  std::vector<std::pair<std::byte*, int64_t>> blocks;
  int64_t largest_count = 0;
  for (int step = 0; step < 60000; ++step) {
    const int64_t page_count = random() % 3 > 0 ? 1 + random() % 10 : 1 + random() % 500;
    std::byte* block = pool_->allocate(page_count * kPageBytes, kBudgetBytes - pool_->held_bytes());
    if (block != nullptr) blocks.emplace_back(block, page_count);
    if (block != nullptr && random() % 2 > 0) continue;
    std::swap(blocks[random() % blocks.size()], blocks.back());
    give(blocks.back().first, blocks.back().second);
    blocks.pop_back();
    largest_count = std::max(largest_count, pool_->mapping_count());
  }
  EXPECT_GT(pool_->stitch_count(), 200);
  EXPECT_LE(largest_count, 3 * kBudgetBytes / (kGranulePages * kPageBytes));
}

// Addresses without memory, whose pages are as large as granules, as on a GPU.
class LargePageSpace final : public AddressSpace {
 public:
  static constexpr int64_t kLargePageBytes = 512 * kPageBytes;

  explicit LargePageSpace(int64_t page_count)
      : AddressSpace(reinterpret_cast<std::byte*>(kLargePageBytes), page_count * kLargePageBytes,
                     kLargePageBytes),
        committed_(static_cast<size_t>(page_count)) {}

  bool commit(ByteRange range) override { return set(range, true); }
  bool decommit(ByteRange range) override { return set(range, false); }
  int64_t move(ByteRange from, int64_t to_bytes) override {
    EXPECT_TRUE(set(from, false) && set({to_bytes, from.size_bytes}, true));
    return from.size_bytes;
  }
  int64_t committed_bytes() const {
    return std::count(committed_.begin(), committed_.end(), true) * kLargePageBytes;
  }
  bool is_committed(ByteRange range) const {
    for (int64_t page = range.begin_bytes / kLargePageBytes;
         page * kLargePageBytes < range.end_bytes(); ++page)
      if (!committed_[static_cast<size_t>(page)]) return false;
    return true;
  }

 private:
  bool set(ByteRange range, bool value) {
    EXPECT_EQ(range.begin_bytes % kLargePageBytes, 0);
    EXPECT_EQ(range.size_bytes % kLargePageBytes, 0);
    for (int64_t begin = range.begin_bytes; begin < range.end_bytes(); begin += kLargePageBytes) {
      EXPECT_NE(committed_[static_cast<size_t>(begin / kLargePageBytes)], value) << begin;
      committed_[static_cast<size_t>(begin / kLargePageBytes)] = value;
    }
    return true;
  }

  std::vector<bool> committed_;
};

TEST(LargePagesTest, OnlyWholePagesMoveAndReturn) {
  constexpr int64_t kLargePageBytes = LargePageSpace::kLargePageBytes;
  constexpr int64_t kBudgetBytes = 40 * kLargePageBytes;
  auto owned = std::make_unique<LargePageSpace>(160);
  const LargePageSpace& space = *owned;
  PagePool pool(std::move(owned), {.granule_bytes = kLargePageBytes, .mapping_limit = kNoLimit});
  std::vector<std::pair<std::byte*, int64_t>> blocks;
  std::mt19937 random(7);
  for (int step = 0; step < 20000; ++step) {
    const int64_t size_bytes = (1 + static_cast<int64_t>(random() % 3000)) * kPageBytes;
    const auto effort = random() % 2 == 0 ? Effort::kUsual : Effort::kUtmost;
    std::byte* block = pool.allocate(size_bytes, kBudgetBytes - pool.held_bytes(), effort);
    ASSERT_EQ(pool.held_bytes(), space.committed_bytes());
    ASSERT_LE(pool.held_bytes(), kBudgetBytes);
    if (block != nullptr) {
      ASSERT_TRUE(space.is_committed({space.offset_of(block), size_bytes}));
      blocks.emplace_back(block, size_bytes);
    }
    if (step % 100 == 0) pool.trim(3 * kPageBytes);
    if (blocks.empty() || (block != nullptr && random() % 2 > 0)) continue;
    std::swap(blocks[random() % blocks.size()], blocks.back());
    pool.release(blocks.back().first, blocks.back().second);
    blocks.pop_back();
  }
  EXPECT_GT(pool.stitch_count(), 1000);
  for (const auto& [block, size_bytes] : blocks) pool.release(block, size_bytes);
  pool.trim(kNoLimit);
  EXPECT_EQ(pool.held_bytes(), 0);
}

}  // namespace
}  // namespace teraio::device
