// Blocks of known occasions, on pages that stay mapped where they have been, as a GPU's do.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "base/units.h"
#include "device/page_pool.h"

namespace teraio::device {
namespace {

constexpr int64_t kPage = 2 * kMiB;
constexpr int64_t kWindowPages = 4096;

// Addresses without memory. Counts how often a page is mapped.
class PaperSpace final : public AddressSpace {
 public:
  explicit PaperSpace(int64_t page_count)
      : AddressSpace(reinterpret_cast<std::byte*>(kPage), page_count * kPage, kPage),
        mapped_(static_cast<size_t>(page_count)) {}

  bool commit(ByteRange range) override {
    for (int64_t at = range.begin_bytes; at < range.end_bytes(); at += kPage) {
      EXPECT_FALSE(is_committed(at));
      map(at, ++last_page_);
      where_[last_page_] = at;
    }
    return true;
  }
  bool decommit(ByteRange range) override {
    for (int64_t at = range.begin_bytes; at < range.end_bytes(); at += kPage) {
      const int page = page_at(at);
      for (const int64_t former : former_[page]) mapped(former) = 0;
      former_.erase(page);
      where_.erase(page);
      mapped(at) = 0;
    }
    return true;
  }
  int64_t move(ByteRange from, int64_t to_bytes) override {
    if (--moves_left_ < 0) return 0;
    for (int64_t offset = 0; offset < from.size_bytes; offset += kPage) {
      const int64_t old = from.begin_bytes + offset;
      const int64_t to = to_bytes + offset;
      const int page = page_at(old);
      EXPECT_FALSE(is_committed(to));
      if (mapped(to) != page) map(to, page);
      std::erase(former_[page], to);
      former_[page].push_back(old);
      where_[page] = to;
    }
    return from.size_bytes;
  }
  int64_t page_left_at(int64_t at) const override {
    const auto found = where_.find(mapped_[static_cast<size_t>(at / kPage)]);
    return found == where_.end() ? -1 : found->second;
  }
  std::span<const int64_t> former_offsets(int64_t at) const override {
    const auto found = former_.find(mapped_[static_cast<size_t>(at / kPage)]);
    return found == former_.end() ? std::span<const int64_t>() : found->second;
  }

  // The page that is at a committed address.
  int page_at(int64_t at) {
    EXPECT_TRUE(is_committed(at));
    return mapped(at);
  }
  int64_t map_count() const { return map_count_; }
  void refuse_moves_after(int64_t count) { moves_left_ = count; }

 private:
  int& mapped(int64_t at) { return mapped_[static_cast<size_t>(at / kPage)]; }
  bool is_committed(int64_t at) { return mapped(at) != 0 && page_left_at(at) == at; }
  void map(int64_t at, int page) {
    if (const auto old = former_.find(mapped(at)); old != former_.end())
      std::erase(old->second, at);
    mapped(at) = page;
    ++map_count_;
  }

  std::vector<int> mapped_;
  std::map<int, int64_t> where_;
  std::map<int, std::vector<int64_t>> former_;
  int last_page_ = 0;
  int64_t map_count_ = 0;
  int64_t moves_left_ = std::numeric_limits<int64_t>::max();
};

class PagePoolWindowsTest : public ::testing::Test {
 protected:
  PagePoolWindowsTest() { open(kWindowPages); }

  void open(int64_t window_pages) {
    auto space = std::make_unique<PaperSpace>(1024 + window_pages);
    space_ = space.get();
    pool_ = std::make_unique<PagePool>(
        std::move(space), PagePoolOptions{.granule_bytes = kPage,
                                          .mapping_limit = std::numeric_limits<int64_t>::max(),
                                          .window_bytes = window_pages * kPage});
  }

  std::byte* take(int64_t moment, int64_t size_bytes) {
    const Occasion occasion{.moment = moment, .key = static_cast<uint64_t>(moment)};
    return pool_->allocate_on(occasion, size_bytes, limit_bytes_ - pool_->held_bytes());
  }
  std::vector<int> pages_of(const std::byte* block, int64_t page_count) {
    std::vector<int> pages;
    for (int64_t i = 0; i < page_count; ++i)
      pages.push_back(space_->page_at(pool_offset(block) + i * kPage));
    return pages;
  }
  int64_t pool_offset(const std::byte* block) const { return space_->offset_of(block) & -kPage; }

  int64_t limit_bytes_ = 8 * kPage;
  PaperSpace* space_ = nullptr;
  std::unique_ptr<PagePool> pool_;
};

TEST_F(PagePoolWindowsTest, ABlockReturnsToItsPagesWithoutACall) {
  std::byte* first = take(1, 6 * kPage);
  const std::vector<int> pages = pages_of(first, 6);
  pool_->release(first, 6 * kPage);
  std::byte* second = take(2, 7 * kPage);  // needs pages of the first
  ASSERT_NE(second, nullptr);
  ASSERT_NE(second, first);
  pool_->release(second, 7 * kPage);
  const int64_t before = space_->map_count();
  EXPECT_EQ(take(1, 6 * kPage), first);
  EXPECT_EQ(pages_of(first, 6), pages);
  EXPECT_EQ(space_->map_count(), before);
}

TEST_F(PagePoolWindowsTest, AMissingPageIsTheOneThatIsWantedLast) {
  std::byte* soon = take(20, 2 * kPage);
  const std::vector<int> pages_of_soon = pages_of(soon, 2);
  std::byte* late = take(90, 4 * kPage);
  const std::vector<int> pages_of_late = pages_of(late, 4);
  pool_->release(soon, 2 * kPage);
  pool_->release(late, 4 * kPage);
  limit_bytes_ = 6 * kPage;
  std::byte* block = take(10, 3 * kPage);
  ASSERT_NE(block, nullptr);
  for (const int page : pages_of(block, 3))
    EXPECT_EQ(std::ranges::count(pages_of_late, page), 1) << page;
  EXPECT_EQ(take(20, 2 * kPage), soon);
  EXPECT_EQ(pages_of(soon, 2), pages_of_soon);
}

TEST_F(PagePoolWindowsTest, SmallBlocksShareAPage) {
  std::byte* first = take(1, kPage / 2);
  std::byte* second = take(2, kPage / 4);
  EXPECT_EQ(pool_->held_bytes(), kPage);
  pool_->release(first, kPage / 2);
  pool_->release(second, kPage / 4);
  EXPECT_EQ(take(2, kPage / 4), second);
  EXPECT_EQ(take(1, kPage / 2), first);
}

TEST_F(PagePoolWindowsTest, ASmallBlockOfAnotherOccasionIsNotDisturbed) {
  std::byte* large = take(1, 2 * kPage + kPage / 2);
  std::byte* small = take(2, kPage / 4);  // in the last page of the large one
  ASSERT_EQ(small, large + 2 * kPage + kPage / 2);
  pool_->release(large, 2 * kPage + kPage / 2);
  EXPECT_EQ(take(1, 2 * kPage + kPage / 2), large);
  pool_->release(large, 2 * kPage + kPage / 2);
  std::byte* other = take(3, 7 * kPage);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(take(1, 2 * kPage + kPage / 2), nullptr) << "one page is left";
  pool_->release(other, 7 * kPage);
  EXPECT_EQ(take(1, 2 * kPage + kPage / 2), large);
}

TEST_F(PagePoolWindowsTest, TooFewPagesAreRefusedAndNoneIsLost) {
  std::byte* first = take(1, 5 * kPage);
  EXPECT_EQ(take(2, 4 * kPage), nullptr);
  EXPECT_NE(take(3, 3 * kPage), nullptr);
  EXPECT_EQ(pool_->held_bytes(), 8 * kPage);
  pool_->release(first, 5 * kPage);
  EXPECT_EQ(pool_->free_bytes(), 5 * kPage);
}

TEST_F(PagePoolWindowsTest, NoPageIsLostWhenTheSystemRefusesToMoveOne) {
  std::byte* first = take(1, 8 * kPage);
  pool_->release(first, 8 * kPage);
  space_->refuse_moves_after(2);
  EXPECT_EQ(take(2, 5 * kPage), nullptr);
  EXPECT_EQ(pool_->free_bytes(), 8 * kPage);
  space_->refuse_moves_after(100);
  EXPECT_EQ(take(1, 8 * kPage), first);
}

TEST_F(PagePoolWindowsTest, WithoutAddressesForMoreWindowsOthersServe) {
  open(5);  // one of them keeps windows and other blocks apart
  std::byte* first = take(1, 3 * kPage);
  EXPECT_EQ(take(2, 3 * kPage), nullptr);
  pool_->release(first, 3 * kPage);
  EXPECT_EQ(take(2, 3 * kPage), first);
  EXPECT_EQ(take(3, 2 * kPage), nullptr) << "no window of this size";
  EXPECT_NE(pool_->allocate(2 * kPage, 2 * kPage), nullptr);
}

// Allocations and releases of an iteration, in which almost all pages are in use at most times.
struct Step {
  int64_t moment = 0;
  int64_t size_bytes = 0;
  int64_t released_after = 0;
};

std::vector<Step> random_iteration(std::mt19937& random, int64_t step_count) {
  std::vector<Step> steps;
  for (int64_t moment = 0; moment < step_count; ++moment) {
    const bool is_large = random() % 8 == 0;
    const int64_t quarters = is_large ? 4 * (4 + random() % 9) : 1 + random() % 8;
    steps.push_back({moment, quarters * kPage / 4, 1 + static_cast<int64_t>(random() % 12)});
  }
  return steps;
}

TEST_F(PagePoolWindowsTest, IterationsThatRepeatSoonMapNothing) {
  std::mt19937 random(1);
  const std::vector<Step> steps = random_iteration(random, 300);
  limit_bytes_ = 24 * kPage;
  const auto run = [&](bool has_occasions) {
    open(kWindowPages);
    std::vector<int64_t> map_counts;
    for (int iteration = 0; iteration < 12; ++iteration) {
      const int64_t before = space_->map_count();
      std::map<int64_t, std::vector<std::pair<std::byte*, int64_t>>> ends;
      for (const Step& step : steps) {
        for (const auto& [block, size] : ends[step.moment]) pool_->release(block, size);
        ends.erase(step.moment);
        std::byte* block = has_occasions ? take(step.moment, step.size_bytes) : nullptr;
        const int64_t growth_bytes = limit_bytes_ - pool_->held_bytes();
        if (block == nullptr) block = pool_->allocate(step.size_bytes, growth_bytes);
        if (block != nullptr)
          ends[step.moment + step.released_after].emplace_back(block, step.size_bytes);
      }
      for (const auto& [moment, blocks] : ends)
        for (const auto& [block, size] : blocks) pool_->release(block, size);
      map_counts.push_back(space_->map_count() - before);
    }
    return map_counts.back();
  };
  EXPECT_GT(run(false), 0);
  EXPECT_EQ(run(true), 0);
}

// With allocations of unknown occasions between, pages that return to the system, and a system that
// refuses to move some. The parameter: pages for windows.
class ScarceWindowsTest : public PagePoolWindowsTest, public ::testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(Pages, ScarceWindowsTest, ::testing::Values(kWindowPages, 300, 60));

TEST_P(ScarceWindowsTest, BlocksNeverShareMemory) {
  std::mt19937 random(2);
  open(GetParam());
  limit_bytes_ = 48 * kPage;
  struct Live {
    std::byte* block;
    int64_t size_bytes;
  };
  std::vector<Live> live;
  int64_t block_count = 0;
  std::set<std::pair<int, int64_t>> used;  // quarters of pages
  const auto quarters_of = [&](const Live& entry) {
    std::vector<std::pair<int, int64_t>> quarters;
    for (int64_t at = 0; at < entry.size_bytes; at += kPage / 4) {
      const int64_t offset = space_->offset_of(entry.block) + at;
      quarters.emplace_back(space_->page_at(offset & -kPage), offset % kPage);
    }
    return quarters;
  };
  for (int i = 0; i < 20'000; ++i) {
    const auto kind = random() % 16;
    space_->refuse_moves_after(random() % 8 == 0 ? random() % 4 : 1000);
    if (kind == 0) {
      pool_->trim(static_cast<int64_t>(random() % 8) * kPage);
    } else if (kind < 8 && !live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      for (const auto& quarter : quarters_of(live.back())) EXPECT_EQ(used.erase(quarter), 1u);
      pool_->release(live.back().block, live.back().size_bytes);
      live.pop_back();
    } else {
      const int64_t size_bytes = static_cast<int64_t>(1 + random() % 40) * kPage / 4;
      const int64_t growth_bytes = limit_bytes_ - pool_->held_bytes();
      std::byte* block = kind % 2 == 0 ? take(random() % 200, size_bytes)
                                       : pool_->allocate(size_bytes, growth_bytes);
      if (block == nullptr) continue;
      ++block_count;
      live.push_back({block, size_bytes});
      for (const auto& quarter : quarters_of(live.back()))
        EXPECT_TRUE(used.insert(quarter).second) << "in round " << i;
    }
    ASSERT_LE(pool_->held_bytes(), limit_bytes_);
  }
  EXPECT_GT(block_count, 4000);
}

}  // namespace
}  // namespace teraio::device
