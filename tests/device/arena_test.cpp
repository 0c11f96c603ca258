#include "device/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <list>
#include <random>
#include <utility>
#include <vector>

#include "base/units.h"
#include "device/host_address_space.h"

namespace teraio::device {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr int64_t kArenaPages = 64;

bool anything_may_move(void* /*tenant*/) { return true; }

class ArenaTest : public ::testing::Test {
 protected:
  void open(int64_t commit_pages = 1) {
    auto space = HostAddressSpace::reserve(16 * kMiB, 16 * kMiB);
    ASSERT_TRUE(space.ok());
    space_ = space->get();
    arena_ = std::make_unique<Arena>(std::move(*space), commit_pages * kPageBytes);
  }

  // Takes blocks of these sizes, one above the other, and releases those at `holes`.
  std::vector<std::byte*> open_with_holes(const std::vector<int64_t>& page_counts,
                                          const std::vector<size_t>& holes) {
    open();
    std::vector<std::byte*> blocks;
    for (const int64_t page_count : page_counts) blocks.push_back(take(page_count));
    for (const size_t hole : holes) arena_->release(blocks[hole]);
    return blocks;
  }

  std::byte* take(int64_t page_count, double leaves_at = kSoon, int64_t growth_limit = kNoLimit) {
    tenants_.push_back(page_count);
    std::byte* block =
        arena_->allocate(page_count * kPageBytes, {&tenants_.back(), leaves_at}, growth_limit);
    if (block != nullptr) std::memset(block, 1, page_count * kPageBytes);
    return block;
  }
  int64_t page_of(const std::byte* block) const { return space_->offset_of(block) / kPageBytes; }
  std::vector<Relocation> room_for(int64_t page_count, int64_t most_pages = kArenaPages) {
    return arena_->find_room(page_count * kPageBytes, anything_may_move, most_pages * kPageBytes);
  }

  std::list<int64_t> tenants_;
  HostAddressSpace* space_ = nullptr;
  std::unique_ptr<Arena> arena_;
};

TEST_F(ArenaTest, ABlockLiesBesideOneThatLeavesAtTheSameTime) {
  open();
  std::byte* early = take(4, 1.0);
  std::byte* first = take(4);
  std::byte* late = take(4, 2.0);
  std::byte* second = take(4);
  take(4, 3.0);
  arena_->release(first);
  arena_->release(second);
  EXPECT_EQ(page_of(take(2, 2.9)), page_of(second) + 2) << "below what leaves at 3";
  EXPECT_EQ(page_of(take(1, 1.1)), page_of(early) + 4);
  EXPECT_EQ(page_of(take(1, 1.9)), page_of(late) - 1);
}

TEST_F(ArenaTest, WhenABlockLeavesMayBecomeKnown) {
  open();
  std::byte* first = take(4);
  std::byte* hole = take(4);
  std::byte* second = take(4);
  arena_->release(hole);
  arena_->set_leaves_at(first, 1.0);
  arena_->set_leaves_at(second, 2.0);
  EXPECT_EQ(page_of(take(1, 1.1)), page_of(hole));
  EXPECT_EQ(page_of(take(1, 1.9)), page_of(second) - 1);
}

TEST_F(ArenaTest, AmongEqualPlacesTheSmallestGapIsTaken) {
  const auto blocks = open_with_holes({8, 1, 3, 1, 5, 1}, {0, 2, 4});
  EXPECT_EQ(page_of(take(3)), page_of(blocks[2]));
  EXPECT_EQ(page_of(take(4)) / 5, page_of(blocks[4]) / 5);
}

TEST_F(ArenaTest, ItGrowsInChunksAndToTheLastPageAllowed) {
  open(8);
  EXPECT_NE(take(3, kSoon, 8 * kPageBytes), nullptr);
  EXPECT_EQ(arena_->held_bytes(), 8 * kPageBytes);
  EXPECT_EQ(take(9, kSoon, 3 * kPageBytes), nullptr);
  EXPECT_NE(take(8, kSoon, 3 * kPageBytes), nullptr);
  EXPECT_EQ(arena_->held_bytes(), 11 * kPageBytes);
}

TEST_F(ArenaTest, TheLargestBlockIsTrue) {
  open();
  take(2);
  std::byte* hole = take(5);
  take(1);
  arena_->release(hole);
  EXPECT_EQ(arena_->largest_bytes(0), 5 * kPageBytes);
  EXPECT_EQ(arena_->largest_bytes(9 * kPageBytes), 9 * kPageBytes);
  EXPECT_NE(take(9, kSoon, 9 * kPageBytes), nullptr);
}

TEST_F(ArenaTest, TheHighestChunksReturnFirst) {
  open(4);
  std::byte* low = take(8);
  std::byte* kept = take(4);
  std::byte* high = take(8);
  arena_->release(low);
  arena_->release(high);
  arena_->trim(6 * kPageBytes);
  EXPECT_EQ(arena_->held_bytes(), 12 * kPageBytes);
  EXPECT_EQ(page_of(take(8, kSoon, 0)), page_of(low)) << "is still there";
  *kept = std::byte{1};
}

TEST_F(ArenaTest, PagesReturnWhereNoWholeChunkIsFree) {
  open(4);
  std::byte* first = take(3);
  std::byte* second = take(1);
  arena_->release(first);
  arena_->trim(2 * kPageBytes);
  EXPECT_EQ(arena_->held_bytes(), 2 * kPageBytes);
  *second = std::byte{1};
}

// --- Moves --------------------------------------------------------------------------------------

TEST_F(ArenaTest, TheFewestBytesMove) {
  const auto blocks =
      open_with_holes({4, 3, 2, 1, 4, 3, 1}, {0, 2, 4});  // 4, 2 and 4 pages are free
  const auto moves = room_for(7);
  ASSERT_EQ(moves.size(), 1u) << "the gaps of 2 and 4 pages are a page apart";
  EXPECT_EQ(moves[0].from, blocks[3]);
  EXPECT_EQ(moves[0].to, blocks[0] + 3 * kPageBytes) << "soon leaves what is above, too";
  EXPECT_TRUE(room_for(7, 0).empty()) << "no byte may move";
  EXPECT_TRUE(room_for(11).empty()) << "only 10 pages are free";
}

TEST_F(ArenaTest, BlocksSlideWhereNoGapHoldsThem) {
  const auto blocks = open_with_holes({2, 8, 2, 8, 2, 1}, {0, 2, 4});
  const auto moves = room_for(4);
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].from, blocks[1]);
  EXPECT_EQ(moves[0].to, blocks[0]) << "overlaps its own block from below";
  EXPECT_EQ(arena_->find_room(4 * kPageBytes, anything_may_move, kNoLimit).size(), 1u);
  const auto more = room_for(6);
  ASSERT_EQ(more.size(), 2u);
  EXPECT_EQ(more[1].to, blocks[0] + 8 * kPageBytes) << "where the one before it was";
  arena_->relocate(more);
  EXPECT_EQ(page_of(take(6, kSoon, 0)), page_of(blocks[0]) + 16);
}

TEST_F(ArenaTest, NothingSlidesPastWhatMayNotMove) {
  const auto blocks = open_with_holes({2, 8, 2, 8, 2, 1}, {0, 2, 4});
  void* fixed = &*std::next(tenants_.begin(), 3);
  const auto others = [fixed](void* tenant) { return tenant != fixed; };
  EXPECT_EQ(arena_->find_room(4 * kPageBytes, others, kArenaPages * kPageBytes).size(), 1u);
  EXPECT_TRUE(arena_->find_room(6 * kPageBytes, others, kArenaPages * kPageBytes).empty());
}

TEST_F(ArenaTest, FreePagesAtTheEndCount) {
  const auto blocks = open_with_holes({4089, 2, 3, 2}, {1, 3});
  const auto moves = room_for(4);
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].to, blocks[1]);
}

// Pages of several gaps have returned to the system, and are needed for one block.
TEST_F(ArenaTest, AllUncommittedPagesCount) {
  const auto blocks = open_with_holes({2, 3, 2, 4085, 4}, {0, 2, 4});
  arena_->trim(8 * kPageBytes);
  ASSERT_EQ(arena_->free_bytes(), 0);
  ASSERT_EQ(take(7, kSoon, 8 * kPageBytes), nullptr);
  EXPECT_EQ(arena_->free_bytes(), 8 * kPageBytes);
}

TEST_F(ArenaTest, UncommittedPagesDoNotDivideWhatMoves) {
  open();
  std::vector<std::byte*> blocks;
  for (const int64_t page_count : {2, 2, 2, 2, 3, 2}) blocks.push_back(take(page_count));
  arena_->release(blocks[3]);
  arena_->trim(2 * kPageBytes);
  for (const int i : {1, 5}) arena_->release(blocks[i]);
  ASSERT_EQ(take(4, kSoon, 0), nullptr);
  const auto moves = room_for(4);
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].from, blocks[2]);
  arena_->relocate(moves);
  EXPECT_NE(take(4, kSoon, 0), nullptr);
  EXPECT_EQ(*blocks[4], std::byte{1});
}

TEST_F(ArenaTest, ASlideIsNotManySmallCopies) {
  for (const int64_t page_count : {64, 65}) {
    open_with_holes({1, page_count, 1}, {0, 2});
    EXPECT_EQ(room_for(2, kArenaPages + 1).size(), page_count == 64 ? 1u : 0u);
  }
}

// The one of the fewest bytes would move a block of 100 pages by one.
TEST_F(ArenaTest, TheCheapestSlideThatIsPossibleIsTaken) {
  const auto blocks = open_with_holes({3, 150, 1, 100, 3, 5}, {0, 2, 4});
  const auto moves = arena_->find_room(4 * kPageBytes, anything_may_move, kNoLimit);
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].from, blocks[1]);
}

// Two pages leave a stretch of six for a gap of two, and two slide: neither alone makes room.
TEST_F(ArenaTest, SomeBlocksMoveElsewhereAndTheOthersSlide) {
  const auto blocks = open_with_holes({1, 1, 2, 2, 1, 1, 2, 1}, {1, 4, 6});
  const auto moves = arena_->find_room(
      4 * kPageBytes, [](void* tenant) { return *static_cast<int64_t*>(tenant) == 2; },
      kArenaPages * kPageBytes);
  ASSERT_EQ(moves.size(), 2u);
  EXPECT_EQ(moves[0].to, blocks[6]);
  EXPECT_EQ(moves[1].to, blocks[1]);
  arena_->relocate(moves);
  EXPECT_EQ(take(4, kSoon, 0), blocks[1] + 2 * kPageBytes);
}

TEST_F(ArenaTest, BlocksWithoutATenantDoNotMove) {
  open();
  std::byte* first = take(4);
  EXPECT_NE(arena_->allocate(1 * kPageBytes, {}, kNoLimit), nullptr);
  std::byte* second = take(4);
  arena_->allocate(1 * kPageBytes, {}, kNoLimit);
  arena_->release(first);
  arena_->release(second);
  EXPECT_TRUE(room_for(5).empty());
}

TEST_F(ArenaTest, AMovedBlockKeepsItsTenantOrGetsAnother) {
  const auto blocks = open_with_holes({4, 1, 4, 1}, {0, 2});
  const auto moves = room_for(5);
  ASSERT_EQ(moves.size(), 1u);
  arena_->relocate(moves);
  std::byte* large = take(5, kSoon, 0);
  ASSERT_NE(large, nullptr);
  arena_->release(large);
  int64_t other = 0;
  arena_->set_tenant(moves[0].to, &other);
  const auto seen = arena_->find_room(
      8 * kPageBytes, [&](void* tenant) { return tenant == &other; }, kArenaPages * kPageBytes);
  for (const Relocation& move : seen) EXPECT_EQ(move.tenant, &other);
}

// A model that knows every page: blocks never overlap, keep their bytes when they move, and room
// that is found is room.
class ArenaRandomTest : public ArenaTest, public ::testing::WithParamInterface<uint64_t> {
 protected:
  struct Block {
    int64_t size_bytes;
    uint8_t pattern;
    bool may_move;
    std::byte* memory;
  };

  bool one_in(int n) { return random_() % n == 0; }

  void add(std::byte* memory, int64_t size_bytes) {
    Block& block = *next_;
    block = {size_bytes, static_cast<uint8_t>(random_()), !one_in(4), memory};
    std::memset(memory, block.pattern, size_bytes);
    blocks_.splice(blocks_.end(), spare_, next_);
  }
  void expect_intact(const Block& block) {
    ASSERT_TRUE(std::all_of(block.memory, block.memory + block.size_bytes,
                            [&](std::byte b) { return b == std::byte{block.pattern}; }));
  }
  void release_one() {
    const auto block = std::next(blocks_.begin(), random_() % blocks_.size());
    ASSERT_NO_FATAL_FAILURE(expect_intact(*block));
    arena_->release(block->memory);
    blocks_.erase(block);
  }
  bool move_for(int64_t size_bytes) {
    const auto moves = arena_->find_room(
        size_bytes, [](void* tenant) { return static_cast<Block*>(tenant)->may_move; },
        one_in(2) ? kNoLimit : size_bytes);
    arena_->relocate(moves);
    for (const Relocation& move : moves) {
      auto* block = static_cast<Block*>(move.tenant);
      EXPECT_TRUE(block->may_move);
      EXPECT_EQ(block->memory, move.from);
      std::memmove(move.to, move.from, move.size_bytes);
      block->memory = move.to;
    }
    return !moves.empty();
  }
  int64_t growth_bytes() const { return kArenaPages * kPageBytes - arena_->held_bytes(); }
  void take_one() {
    const int64_t size_bytes = (1 + random_() % 12) * kPageBytes;
    spare_.emplace_back();
    next_ = std::prev(spare_.end());
    const Tenant tenant{&*next_, static_cast<double>(random_() % 8) / 4};
    if (std::byte* memory = arena_->allocate(size_bytes, tenant, growth_bytes()))
      return add(memory, size_bytes);
    if (move_for(size_bytes)) {
      ++moved_count_;
      std::byte* memory = arena_->allocate(size_bytes, tenant, growth_bytes());
      ASSERT_NE(memory, nullptr) << "room was found";
      return add(memory, size_bytes);
    }
    const bool is_enough = arena_->free_bytes() + growth_bytes() >= size_bytes;
    std::byte* memory = arena_->allocate(size_bytes, tenant, growth_bytes(), Effort::kUtmost);
    ASSERT_EQ(memory != nullptr, is_enough) << "free pages are usable";
    if (memory != nullptr) add(memory, size_bytes);
  }

  std::mt19937_64 random_{GetParam()};
  std::list<Block> blocks_;
  std::list<Block> spare_;
  std::list<Block>::iterator next_;
  int moved_count_ = 0;
};

TEST_P(ArenaRandomTest, EveryByteStaysWithItsBlock) {
  open(GetParam() % 2 == 0 ? 1 : 4);
  for (int i = 0; i < 5000; ++i) {
    blocks_.empty() || !one_in(3) ? take_one() : release_one();
    if (one_in(50)) arena_->trim(static_cast<int64_t>(random_() % 8) * kPageBytes);
    ASSERT_FALSE(HasFatalFailure()) << "step " << i;
    ASSERT_LE(arena_->held_bytes(), kArenaPages * kPageBytes);
  }
  for (const Block& block : blocks_) expect_intact(block);
  EXPECT_GT(moved_count_, 100);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ArenaRandomTest, ::testing::Range<uint64_t>(1, 7));

}  // namespace
}  // namespace teraio::device
