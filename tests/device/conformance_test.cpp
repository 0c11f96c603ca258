// The contract of Device, tested on every implementation. devices() lists them.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/units.h"
#include "device/cpu_device.h"
#include "device/cuda_device.h"
#include "testing/no_silent_skips.h"
#include "testing/stepped_device.h"

namespace teraio::device {
namespace {

struct DeviceKind {
  std::string name;
  std::function<Result<std::unique_ptr<Device>>(int64_t budget_bytes)> make;
};

Result<std::unique_ptr<Device>> make_stepped(int64_t budget_bytes) {
  return std::unique_ptr<Device>(std::make_unique<testing::SteppedDevice>(
      testing::SteppedDeviceOptions{.budget_bytes = budget_bytes, .seed = 3}));
}

Result<std::unique_ptr<Device>> make_cuda(int64_t budget_bytes) {
  auto device = make_cuda_device({.budget_bytes = budget_bytes});
  if (!device.ok()) return device.status();
  return std::unique_ptr<Device>(std::move(*device));
}

std::vector<DeviceKind> devices() {
  return {{"cpu", make_cpu_device}, {"stepped", make_stepped}, {"cuda", make_cuda}};
}

// Accesses device memory only by copies, because the CPU may be unable to address it.
class DeviceConformanceTest : public ::testing::TestWithParam<DeviceKind> {
 protected:
  static constexpr int64_t kBudgetBytes = 32 * kMiB;

  void SetUp() override {
    auto device = GetParam().make(kBudgetBytes);
    if (!device.ok() && device.status().code() == ErrorCode::kUnsupported)
      GTEST_SKIP() << testing::kNotApplicable << device.status().message();
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = std::move(*device);
  }

  void fill(std::byte* memory, int64_t size_bytes, uint8_t value) {
    const std::vector<std::byte> bytes(size_bytes, std::byte{value});
    const Result<Event> end =
        device_->copy_from_host(memory, bytes.data(), size_bytes, device_->record());
    ASSERT_TRUE(end.ok());
    ASSERT_TRUE(device_->wait(*end).ok());
  }

  std::vector<std::byte> bytes_of(const std::byte* memory, int64_t size_bytes) {
    std::vector<std::byte> bytes(size_bytes);
    const Result<Event> end =
        device_->copy_to_host(bytes.data(), memory, size_bytes, device_->record());
    EXPECT_TRUE(end.ok() && device_->wait(*end).ok());
    return bytes;
  }

  void expect_filled(const std::byte* memory, int64_t size_bytes, uint8_t value) {
    ASSERT_EQ(bytes_of(memory, size_bytes), std::vector<std::byte>(size_bytes, std::byte{value}));
  }

  std::unique_ptr<Device> device_;
};

TEST_P(DeviceConformanceTest, WhatIsAskedForAtEveryOpIsWhatUsageSays) {
  EXPECT_EQ(device_->budget_bytes(), kBudgetBytes);
  std::byte* memory = device_->allocate(5000);
  EXPECT_GE(device_->allocated_bytes(), 5000);
  EXPECT_EQ(device_->allocated_bytes(), device_->usage().allocated_bytes);
  device_->set_budget_bytes(kBudgetBytes / 2);
  EXPECT_EQ(device_->budget_bytes(), kBudgetBytes / 2);
  EXPECT_EQ(device_->budget_bytes(), device_->usage().budget_bytes);
  device_->release(memory);
}

TEST_P(DeviceConformanceTest, BytesComeBack) {
  for (int64_t size_bytes : {1L, 64L, 4095L, 4096L, 4097L, 1048576L, 5000001L}) {
    std::byte* memory = device_->allocate(size_bytes);
    ASSERT_NE(memory, nullptr) << size_bytes;
    fill(memory, size_bytes, 17);
    expect_filled(memory, size_bytes, 17);
    device_->release(memory);
  }
}

TEST_P(DeviceConformanceTest, BlocksAreAligned) {
  for (int64_t size_bytes : {0L, 1L, 100L, 4096L, 70000L, 3000000L}) {
    std::byte* memory = device_->allocate(size_bytes);
    ASSERT_NE(memory, nullptr) << size_bytes;
    const int64_t alignment = size_bytes < kPageBytes ? 64 : kPageBytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, 0) << size_bytes;
    device_->release(memory);
  }
}

TEST_P(DeviceConformanceTest, TheLastPageOfABlockIsItsOwn) {
  std::byte* first = device_->allocate(kPageBytes + 1);
  std::byte* second = device_->allocate(kPageBytes + 1);
  fill(second, kPageBytes + 1, 2);
  fill(first, 2 * kPageBytes, 1);
  expect_filled(second, kPageBytes + 1, 2);
  device_->release(first);
  device_->release(second);
}

TEST_P(DeviceConformanceTest, WhatTheBudgetDoesNotHoldIsRefused) {
  EXPECT_EQ(device_->allocate(kBudgetBytes + 1), nullptr);
  EXPECT_EQ(device_->allocate(-1), nullptr);
  std::byte* half = device_->allocate(kBudgetBytes / 2);
  ASSERT_NE(half, nullptr);
  EXPECT_EQ(device_->allocate(kBudgetBytes / 2 + kPageBytes), nullptr);
  device_->release(half);
  std::byte* almost_all = device_->allocate(kBudgetBytes / 8 * 7);
  EXPECT_NE(almost_all, nullptr);
  device_->release(almost_all);
}

// The budget holds the bytes, but not the pages that they need.
TEST_P(DeviceConformanceTest, BlocksMoveOnlyForWhatCanBeAllocatedThen) {
  constexpr int64_t kPartOfAPage = 3072;
  constexpr int64_t kBlockBytes = kMiB / 4;
  device_->set_budget_bytes(3 * kMiB + kPartOfAPage);
  std::vector<std::byte*> blocks;
  while (std::byte* block = device_->allocate(kBlockBytes, Effort::kUsual, {.id = this}))
    blocks.push_back(block);
  ASSERT_EQ(blocks.size(), 12u);
  for (const size_t released : {0u, 2u, 4u, 6u}) device_->release(blocks[released]);
  const auto room_for = [&](int64_t size_bytes) {
    return device_->find_room(
        size_bytes, [](void*) { return true; }, 16 * kMiB);
  };
  EXPECT_TRUE(room_for(4 * kBlockBytes + kPartOfAPage).empty());
  device_->relocate(room_for(4 * kBlockBytes));
  EXPECT_NE(device_->allocate(4 * kBlockBytes), nullptr);
}

TEST_P(DeviceConformanceTest, MemoryIsFilledInTheOrderOfCompute) {
  std::byte* memory = device_->allocate(kMiB);
  ASSERT_TRUE(device_->fill(memory, kMiB, 3).ok());
  ASSERT_TRUE(device_->fill(memory, kMiB / 2, 5).ok());
  expect_filled(memory, kMiB / 2, 5);
  expect_filled(memory + kMiB / 2, kMiB / 2, 3);
  device_->release(memory);
}

TEST_P(DeviceConformanceTest, UsageAddsUp) {
  std::byte* first = device_->allocate(kMiB);
  std::byte* second = device_->allocate(kMiB - 100);
  const MemoryUsage both = device_->usage();
  EXPECT_EQ(both.budget_bytes, kBudgetBytes);
  EXPECT_GE(both.allocated_bytes, 2 * kMiB - 100);
  EXPECT_EQ(both.rounding_bytes, both.allocated_bytes - (2 * kMiB - 100));
  EXPECT_GE(both.reserved_bytes, both.allocated_bytes);
  EXPECT_LE(both.reserved_bytes, kBudgetBytes);
  device_->release(first);
  device_->release(second);
  EXPECT_EQ(device_->usage().allocated_bytes, 0);
  EXPECT_EQ(device_->usage().allocated_peak_bytes, both.allocated_bytes);
  device_->reset_peak();
  EXPECT_EQ(device_->usage().allocated_peak_bytes, 0);
}

TEST_P(DeviceConformanceTest, TheBudgetCanBeLoweredAndRaised) {
  std::byte* kept = device_->allocate(kBudgetBytes / 2);
  fill(kept, kBudgetBytes / 2, 4);
  device_->set_budget_bytes(kBudgetBytes / 4);
  EXPECT_EQ(device_->allocate(kMiB), nullptr);
  expect_filled(kept, kBudgetBytes / 2, 4);
  device_->set_budget_bytes(kBudgetBytes);
  std::byte* more = device_->allocate(kBudgetBytes / 4);
  EXPECT_NE(more, nullptr);
  device_->release(more);
  device_->release(kept);
}

TEST_P(DeviceConformanceTest, MemoryOutsideCountsAgainstTheBudget) {
  std::byte* block = device_->allocate(kBudgetBytes / 4);
  fill(block, kBudgetBytes / 4, 6);
  const int64_t before_bytes = device_->allocated_bytes();
  device_->add_outside_bytes(kBudgetBytes / 2);
  EXPECT_EQ(device_->allocated_bytes(), before_bytes + kBudgetBytes / 2);
  EXPECT_EQ(device_->usage().allocated_bytes, device_->allocated_bytes());
  EXPECT_GE(device_->usage().reserved_bytes, device_->allocated_bytes());
  EXPECT_EQ(device_->allocate(kBudgetBytes / 2), nullptr);
  device_->add_outside_bytes(kBudgetBytes);  // beyond the budget
  EXPECT_EQ(device_->allocate(100), nullptr);
  expect_filled(block, kBudgetBytes / 4, 6);
  device_->add_outside_bytes(-kBudgetBytes * 3 / 2);
  EXPECT_EQ(device_->allocated_bytes(), before_bytes);
  std::byte* more = device_->allocate(kBudgetBytes / 2);
  EXPECT_NE(more, nullptr);
  device_->release(more);
  device_->release(block);
}

TEST_P(DeviceConformanceTest, ThePastHasPassed) {
  EXPECT_TRUE(device_->has_passed(Event{}));
  EXPECT_TRUE(device_->wait(Event{}).ok());
  const Event now = device_->record();
  ASSERT_TRUE(device_->wait(now).ok());
  EXPECT_TRUE(device_->has_passed(now));
}

TEST_P(DeviceConformanceTest, ACopyBeginsAfterItsEvent) {
  std::byte* memory = device_->allocate(kMiB);
  const std::vector<std::byte> from(kMiB, std::byte{8});
  std::vector<std::byte> to(kMiB);
  const Result<Event> in = device_->copy_from_host(memory, from.data(), kMiB, device_->record());
  ASSERT_TRUE(in.ok());
  const Result<Event> out = device_->copy_to_host(to.data(), memory, kMiB, *in);
  ASSERT_TRUE(out.ok());
  ASSERT_TRUE(device_->wait(*out).ok());
  EXPECT_TRUE(device_->has_passed(*in));
  EXPECT_EQ(to, from);
  device_->release(memory);
}

TEST_P(DeviceConformanceTest, ComputeCanBeMadeToWaitForACopy) {
  std::byte* memory = device_->allocate(kMiB);
  const std::vector<std::byte> from(kMiB, std::byte{8});
  const Result<Event> in = device_->copy_from_host(memory, from.data(), kMiB, device_->record());
  ASSERT_TRUE(in.ok());
  ASSERT_TRUE(device_->order_after(*in).ok());
  ASSERT_TRUE(device_->wait(device_->record()).ok());
  EXPECT_TRUE(device_->has_passed(*in));
  expect_filled(memory, kMiB, 8);
  device_->release(memory);
}

TEST_P(DeviceConformanceTest, MemoryThatComputeMayStillUseCanBeGivenBack) {
  const std::vector<std::byte> from(kMiB, std::byte{8});
  for (int i = 0; i < 40; ++i) {  // in total more than the budget
    std::byte* memory = device_->allocate(kMiB);
    ASSERT_NE(memory, nullptr);
    const Result<Event> in = device_->copy_from_host(memory, from.data(), kMiB, device_->record());
    ASSERT_TRUE(in.ok());
    ASSERT_TRUE(device_->order_after(*in).ok());
    ASSERT_TRUE(device_->wait(*in).ok());
    device_->release(memory);
  }
}

TEST_P(DeviceConformanceTest, ManyPointsCanBeRecordedAndForgotten) {
  Event last;
  for (int i = 0; i < 2000; ++i) last = device_->record();
  EXPECT_TRUE(device_->wait(last).ok());
  EXPECT_TRUE(device_->has_passed(last));
}

TEST_P(DeviceConformanceTest, HostMemoryCanBePinned) {
  std::vector<std::byte> host(4 * kMiB, std::byte{3});
  HostPinning* pinning = device_->host_pinning();
  if (pinning == nullptr) GTEST_SKIP() << testing::kNotApplicable << "its memory is the host's";
  const Status pinned = pinning->pin(host.data(), 4 * kMiB);
  EXPECT_TRUE(pinned.ok()) << pinned.message();
  std::byte* memory = device_->allocate(kMiB);
  fill(memory, kMiB, 3);
  expect_filled(memory, kMiB, 3);
  device_->release(memory);
  if (pinned.ok()) pinning->unpin(host.data());
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceConformanceTest, ::testing::ValuesIn(devices()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace teraio::device
