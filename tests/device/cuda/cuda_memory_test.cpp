// A GPU's memory that a device shares with another allocator under one budget.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/units.h"
#include "device/cuda_device.h"
#include "testing/no_silent_skips.h"

namespace teraio::device {
namespace {

constexpr int64_t kBudgetBytes = 128 * kMiB;

// What the test sees of the framework.
struct Observed {
  int64_t held_bytes = 0;
  int64_t cached_bytes = 0;  // of them
  int64_t peak_bytes = 0;
  int64_t limit_bytes = 0;
  int64_t asked_count = 0;
  int64_t device_allocated_bytes = 0;
  int64_t device_held_bytes = 0;
};

class OtherAllocator final : public FrameworkAllocator {
 public:
  explicit OtherAllocator(Observed& observed) : observed_(observed) {}
  int64_t held_bytes() const override { return observed_.held_bytes; }
  int64_t held_peak_bytes() const override {
    return std::max(observed_.peak_bytes, observed_.held_bytes);
  }
  void reset_peak() override { observed_.peak_bytes = observed_.held_bytes; }
  void set_limit_bytes(int64_t limit_bytes) override { observed_.limit_bytes = limit_bytes; }
  bool give_back() override {
    ++observed_.asked_count;
    observed_.held_bytes -= observed_.cached_bytes;
    return std::exchange(observed_.cached_bytes, 0) > 0;
  }
  void note_device_bytes(int64_t allocated_bytes, int64_t held_bytes) override {
    observed_.device_allocated_bytes = allocated_bytes;
    observed_.device_held_bytes = held_bytes;
  }

 private:
  Observed& observed_;
};

class CudaMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto facts = inspect_cuda_device(0);
    if (!facts.ok()) GTEST_SKIP() << testing::kNotApplicable << facts.status().message();
  }
  void open() {
    auto device = make_cuda_device(
        {.budget_bytes = kBudgetBytes, .framework = std::make_unique<OtherAllocator>(framework_)});
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = std::move(*device);
  }
  static int64_t gpu_free_bytes() {
    size_t free_bytes = 0;
    size_t all_bytes = 0;
    EXPECT_EQ(cudaMemGetInfo(&free_bytes, &all_bytes), cudaSuccess);
    return static_cast<int64_t>(free_bytes);
  }

  Observed framework_;
  std::unique_ptr<Device> device_;
};

TEST_F(CudaMemoryTest, TheFrameworkMayHoldWhatIsLeft) {
  open();
  EXPECT_EQ(framework_.limit_bytes, kBudgetBytes);
  std::byte* memory = device_->allocate(48 * kMiB);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(framework_.limit_bytes, kBudgetBytes - 48 * kMiB);
  EXPECT_EQ(framework_.device_allocated_bytes, 48 * kMiB);
  EXPECT_EQ(framework_.device_held_bytes, 48 * kMiB);
  device_->release(memory);
  EXPECT_EQ(framework_.device_allocated_bytes, 0);
  EXPECT_EQ(framework_.device_held_bytes, 48 * kMiB) << "free pages are kept";
}

TEST_F(CudaMemoryTest, WhatTheFrameworkHoldsCountsAgainstTheBudget) {
  open();
  framework_.held_bytes = 64 * kMiB;
  EXPECT_EQ(device_->allocate(66 * kMiB), nullptr);
  std::byte* memory = device_->allocate(64 * kMiB);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(device_->usage().reserved_bytes, kBudgetBytes);
  EXPECT_EQ(device_->usage().reserved_peak_bytes, kBudgetBytes);
  device_->release(memory);
}

TEST_F(CudaMemoryTest, TheFrameworkReturnsWhatItHasCached) {
  framework_ = {.held_bytes = 64 * kMiB, .cached_bytes = 60 * kMiB};
  open();
  EXPECT_EQ(framework_.held_bytes, 4 * kMiB) << "at once";
  framework_.held_bytes = 64 * kMiB;
  framework_.cached_bytes = 60 * kMiB;
  std::byte* memory = device_->allocate(120 * kMiB);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(framework_.held_bytes, 4 * kMiB);
  device_->release(memory);
}

TEST_F(CudaMemoryTest, ASizeThatWasRefusedIsNotTriedAgainInVain) {
  open();
  framework_.asked_count = 0;
  framework_.held_bytes = 64 * kMiB;
  std::byte* memory = device_->allocate(32 * kMiB);
  ASSERT_NE(memory, nullptr);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(device_->allocate(40 * kMiB), nullptr);
  EXPECT_EQ(framework_.asked_count, 1);
  EXPECT_EQ(device_->allocate(38 * kMiB), nullptr);
  EXPECT_EQ(framework_.asked_count, 2) << "a smaller one may fit";
  framework_.held_bytes = 0;
  std::byte* other = device_->allocate(40 * kMiB, Effort::kUtmost);
  EXPECT_NE(other, nullptr);
  device_->release(other);
  device_->release(memory);
}

TEST_F(CudaMemoryTest, ASizeThatWasRefusedIsTriedAgainWhenNoMoreIsMissing) {
  open();
  framework_.held_bytes = 64 * kMiB;
  std::byte* large = device_->allocate(60 * kMiB);
  std::byte* small = device_->allocate(2 * kMiB);
  ASSERT_NE(small, nullptr);
  EXPECT_EQ(device_->allocate(4 * kMiB), nullptr);
  device_->release(small);
  std::byte* memory = device_->allocate(4 * kMiB);
  EXPECT_NE(memory, nullptr);
  device_->release(memory);
  device_->release(large);
}

TEST_F(CudaMemoryTest, FreePagesReturnForTheFramework) {
  open();
  std::byte* kept = device_->allocate(20 * kMiB);
  std::byte* memory = device_->allocate(100 * kMiB);
  ASSERT_NE(memory, nullptr);
  const int64_t free_bytes = gpu_free_bytes();
  EXPECT_EQ(device_->return_free_bytes(30 * kMiB), 0) << "all are in use";
  device_->release(memory);
  EXPECT_EQ(device_->return_free_bytes(30 * kMiB), 30 * kMiB);
  EXPECT_EQ(gpu_free_bytes(), free_bytes + 30 * kMiB);
  EXPECT_EQ(framework_.limit_bytes, kBudgetBytes - 90 * kMiB);
  EXPECT_EQ(device_->return_free_bytes(1000 * kMiB), 70 * kMiB);
  device_->release(kept);
}

// A program's tensors are copied into the device's memory before their segments are free.
TEST_F(CudaMemoryTest, WhatTheFrameworkHasFromBeforeDoesNotCountWithUtmostEffort) {
  framework_.held_bytes = 120 * kMiB;
  open();
  EXPECT_EQ(device_->allocate(32 * kMiB), nullptr);
  std::byte* memory = device_->allocate(32 * kMiB, Effort::kUtmost);
  ASSERT_NE(memory, nullptr);
  framework_.held_bytes = 60 * kMiB;
  std::byte* other = device_->allocate(32 * kMiB, Effort::kUtmost);
  ASSERT_NE(other, nullptr);
  framework_.held_bytes = 60 * kMiB + 40 * kMiB;
  EXPECT_EQ(device_->allocate(32 * kMiB, Effort::kUtmost), nullptr) << "what has come since counts";
  device_->release(other);
  device_->release(memory);
}

TEST_F(CudaMemoryTest, ASmallerBudgetReturnsFreePages) {
  open();
  std::byte* kept = device_->allocate(20 * kMiB);
  std::byte* memory = device_->allocate(100 * kMiB);
  device_->release(memory);
  device_->set_budget_bytes(100 * kMiB);
  EXPECT_EQ(device_->usage().reserved_bytes, 100 * kMiB);
  EXPECT_EQ(framework_.limit_bytes, 0);
  device_->release(kept);
}

TEST_F(CudaMemoryTest, WithoutABudgetNoFreePageIsKept) {
  const int64_t free_bytes = gpu_free_bytes();
  open();
  std::byte* kept = device_->allocate(20 * kMiB);
  std::byte* memory = device_->allocate(40 * kMiB);
  device_->release(device_->allocate(60 * kMiB));
  device_->set_budget_bytes(kNoBudget);
  EXPECT_EQ(gpu_free_bytes(), free_bytes - 60 * kMiB);
  device_->release(memory);
  EXPECT_EQ(gpu_free_bytes(), free_bytes - 20 * kMiB);
  device_->release(kept);
  EXPECT_EQ(gpu_free_bytes(), free_bytes);
}

// Other processes may use the GPU at the same time, but not at every try.
TEST_F(CudaMemoryTest, AllPagesReturnWithTheDevice) {
  bool have_returned = false;
  for (int attempt = 0; attempt < 50 && !have_returned; ++attempt) {
    const int64_t free_bytes = gpu_free_bytes();
    open();
    device_->release(device_->allocate(100 * kMiB));
    const int64_t held_bytes = free_bytes - gpu_free_bytes();
    device_.reset();
    have_returned = held_bytes == 100 * kMiB && gpu_free_bytes() == free_bytes;
  }
  EXPECT_TRUE(have_returned);
}

}  // namespace
}  // namespace teraio::device
