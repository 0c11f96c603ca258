#include "device/cpu_device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "testing/child_process.h"
#include "testing/resident_memory.h"

namespace teraio::device {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr int64_t kOverheadBytes =
    4 * kMiB;  // of the process, including the allocator's bookkeeping

// A device, its blocks in use, and their expected contents.
class CpuDeviceTest : public ::testing::Test {
 protected:
  ~CpuDeviceTest() override {
    for (const auto& [memory, block] : blocks_) device_->release(memory);
  }

  void open(int64_t budget_bytes) {
    auto device = make_cpu_device(budget_bytes);
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = std::move(*device);
  }

  // Returns nullptr, or a block filled with its own pattern.
  std::byte* take(int64_t size_bytes) { return keep(device_->allocate(size_bytes), size_bytes); }

  std::byte* keep(std::byte* memory, int64_t size_bytes) {
    if (memory == nullptr) return nullptr;
    expect_no_overlap(memory, size_bytes);
    const uint8_t pattern = ++last_pattern_;
    std::memset(memory, pattern, size_bytes);
    blocks_[memory] = {size_bytes, pattern};
    return memory;
  }

  void give(std::byte* memory) {
    expect_intact(memory);
    blocks_.erase(memory);
    device_->release(memory);
  }

  void give_all() {
    while (!blocks_.empty()) give(blocks_.begin()->first);
  }

  void expect_intact(std::byte* memory) {
    const auto [size_bytes, pattern] = blocks_.at(memory);
    if (size_bytes == 0) return;
    ASSERT_EQ(*memory, std::byte{pattern});
    ASSERT_EQ(std::memcmp(memory, memory + 1, size_bytes - 1),
              0);  // all bytes are equal; the check needs no memory
  }

  void expect_all_intact() {
    for (const auto& [memory, block] : blocks_) expect_intact(memory);
  }

  void expect_no_overlap(std::byte* memory, int64_t size_bytes) {
    auto next = blocks_.lower_bound(memory);
    if (next != blocks_.end()) ASSERT_LE(memory + size_bytes, next->first);
    if (next != blocks_.begin()) {
      --next;
      ASSERT_LE(next->first + next->second.size_bytes, memory);
    }
  }

  // Allocates `count` blocks and releases every other one, so that half of the memory is free in
  // holes of this size.
  void make_holes(int64_t count, int64_t size_bytes) {
    std::vector<std::byte*> blocks;
    for (int64_t i = 0; i < count; ++i) blocks.push_back(take(size_bytes));
    for (int64_t i = 0; i < count; i += 2) give(blocks[i]);
  }

  struct Block {
    int64_t size_bytes = 0;
    uint8_t pattern = 0;
  };
  std::unique_ptr<Device> device_;
  std::map<std::byte*, Block> blocks_;
  uint8_t last_pattern_ = 0;
};

TEST_F(CpuDeviceTest, EmptyBlocksAreDistinct) {
  open(kMiB);
  std::byte* first = device_->allocate(0);
  std::byte* second = device_->allocate(0);
  EXPECT_NE(first, nullptr);
  EXPECT_NE(first, second);
  device_->release(first);
  device_->release(second);
  EXPECT_EQ(device_->usage().allocated_bytes, 0);
}

TEST_F(CpuDeviceTest, SizesThatCannotBeAreRefused) {
  open(kUnlimited);
  EXPECT_EQ(device_->allocate(-1), nullptr);
  EXPECT_EQ(device_->allocate(kUnlimited), nullptr);
}

TEST_F(CpuDeviceTest, TheBudgetIsUsableToTheLastPage) {
  open(10 * kMiB);
  EXPECT_NE(take(6 * kMiB), nullptr);
  EXPECT_NE(take(4 * kMiB), nullptr);
  EXPECT_EQ(take(64 * kKiB), nullptr);
  EXPECT_EQ(take(1), nullptr);
  EXPECT_EQ(device_->usage().reserved_bytes, 10 * kMiB);
}

TEST_F(CpuDeviceTest, NothingFitsInNoBudget) {
  open(0);
  EXPECT_EQ(take(0), nullptr);
  EXPECT_EQ(take(kMiB), nullptr);
}

TEST_F(CpuDeviceTest, ReleasedMemoryIsReusedAndStaysResident) {
  open(64 * kMiB);
  std::byte* first = take(32 * kMiB);
  give(first);
  const int64_t before_bytes = testing::resident_bytes();
  EXPECT_EQ(device_->allocate(32 * kMiB), first);
  EXPECT_EQ(device_->usage().reserved_bytes, 32 * kMiB);
  EXPECT_NEAR(testing::resident_bytes(), before_bytes, kMiB);
}

TEST_F(CpuDeviceTest, SmallBlocksAreCountedAndTakeRoomFromFreePages) {
  open(4 * kMiB);
  give(take(4 * kMiB));
  EXPECT_EQ(device_->usage().reserved_bytes, 4 * kMiB);
  int64_t count = 0;
  while (take(kKiB) != nullptr) ++count;
  EXPECT_GT(count, 3500);
  EXPECT_LE(count, 4 * kKiB);
  EXPECT_LE(device_->usage().reserved_bytes, 4 * kMiB);
  EXPECT_EQ(take(kMiB), nullptr);
  give_all();
  EXPECT_EQ(device_->usage().allocated_bytes, 0);
  EXPECT_NE(take(4 * kMiB), nullptr);
}

TEST_F(CpuDeviceTest, ScatteredFreePagesMakeOneBlockAtAllCosts) {
  open(64 * kMiB);
  make_holes(64, kMiB);
  EXPECT_LT(device_->usage().largest_free_bytes, 2 * kMiB);
  EXPECT_EQ(take(32 * kMiB), nullptr);
  const int64_t before_bytes = testing::resident_bytes();
  std::byte* large = device_->allocate(32 * kMiB, Effort::kUtmost);
  ASSERT_NE(keep(large, 32 * kMiB), nullptr);
  EXPECT_LE(testing::resident_bytes(), before_bytes + kMiB);
  EXPECT_EQ(device_->usage().reserved_bytes, 64 * kMiB);
  expect_all_intact();
}

TEST_F(CpuDeviceTest, ALowerBudgetReturnsFreeMemoryAtOnce) {
  open(96 * kMiB);
  std::byte* kept = take(32 * kMiB);
  give(take(64 * kMiB));
  const int64_t before_bytes = testing::resident_bytes();
  device_->set_budget_bytes(40 * kMiB);
  EXPECT_EQ(device_->usage().reserved_bytes, 40 * kMiB);
  EXPECT_LE(testing::resident_bytes(), before_bytes - 55 * kMiB);
  expect_intact(kept);
  EXPECT_EQ(take(9 * kMiB), nullptr);
  EXPECT_NE(take(8 * kMiB), nullptr);
}

TEST_F(CpuDeviceTest, WithoutALimitItGrowsAsNeededAndReuses) {
  open(kUnlimited);
  for (int round = 0; round < 3; ++round) give(take(48 * kMiB));
  EXPECT_EQ(device_->usage().reserved_bytes, 48 * kMiB);
  EXPECT_GT(device_->usage().largest_free_bytes, kGiB);
}

TEST_F(CpuDeviceTest, ReleasingWhatIsNotABlockIsABugThatIsCaught) {
  open(kMiB);
  std::byte* memory = take(128 * kKiB);
  EXPECT_THROW(device_->release(memory + kPageBytes), InvariantError);
  give(memory);
  EXPECT_THROW(device_->release(memory), InvariantError);
}

TEST_F(CpuDeviceTest, AForkedChildSeesItsBytesAndCanAllocate) {
  open(16 * kMiB);
  make_holes(16, kMiB);
  keep(device_->allocate(6 * kMiB, Effort::kUtmost), 6 * kMiB);
  const auto use = [this] {
    expect_all_intact();
    give(blocks_.begin()->first);
    while (take(512 * kKiB) != nullptr) continue;
    expect_all_intact();
    return HasFailure() ? 1 : 0;
  };
  EXPECT_EQ(testing::exit_code_in_child(use), 0);
  expect_all_intact();
}

// Blocks of many sizes are allocated and released. The budget is low, so many requests fail, or
// need pages to be exchanged.
class CpuDeviceRandomTest : public CpuDeviceTest, public ::testing::WithParamInterface<uint64_t> {
 protected:
  int64_t random_size() {
    const double log_size = std::uniform_real_distribution<double>(4, 23)(random_);
    return static_cast<int64_t>(std::exp2(log_size));
  }

  void give_one() {
    auto block = std::next(blocks_.begin(), random_() % blocks_.size());
    ASSERT_NO_FATAL_FAILURE(give(block->first));
  }

  void take_one(int64_t budget_bytes) {
    const int64_t size_bytes = random_size();
    const int64_t before_bytes = device_->usage().allocated_bytes;
    if (take(size_bytes) != nullptr) return;
    if (random_() % 2 > 0) return give_one();
    if (keep(device_->allocate(size_bytes, Effort::kUtmost), size_bytes) != nullptr) return;
    // Free pages are always usable, so a failure means that the budget is exhausted.
    ASSERT_GT(before_bytes + align_up(size_bytes, kPageBytes) + kPageBytes, budget_bytes);
    give_one();
  }

  void step(int64_t budget_bytes) {
    blocks_.empty() || random_() % 5 < 3 ? take_one(budget_bytes) : give_one();
    ASSERT_LE(device_->usage().reserved_bytes, budget_bytes);
  }

  std::mt19937_64 random_{GetParam()};
};

TEST_P(CpuDeviceRandomTest, KeepsEveryByteWithinTheBudget) {
  const int64_t start_bytes = testing::resident_bytes();
  const int64_t budget_bytes = 48 * kMiB;
  open(budget_bytes);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_NO_FATAL_FAILURE(step(budget_bytes)) << "step " << i;
    if (i % 500 == 0)
      ASSERT_LE(testing::resident_bytes(), start_bytes + budget_bytes + kOverheadBytes)
          << "step " << i;
  }
  expect_all_intact();
  give_all();
  EXPECT_EQ(device_->usage().allocated_bytes, 0);
  EXPECT_EQ(device_->usage().rounding_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CpuDeviceRandomTest, ::testing::Range<uint64_t>(1, 5));

}  // namespace
}  // namespace teraio::device
