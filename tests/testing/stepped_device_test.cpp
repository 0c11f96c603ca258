// Each mistake that the fake is there to find is made here, and found; correct use is not blamed.
#include "testing/stepped_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace teraio::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kSizeBytes = 8192;
constexpr std::byte kPoison{0xCD};

// One block on the device, one on the host, and compute that reads or writes the former.
class SteppedDeviceTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  static SteppedDevice::Bytes block(const std::byte* memory) { return {memory, kSizeBytes}; }

  void launch_write(std::byte* memory, int value) {
    device_.launch({{}, {block(memory)}, [=, this] {
                      std::memset(device_.bytes(memory), value, kSizeBytes);
                    }});
  }
  void launch_read(const std::byte* memory, std::byte& value) {
    device_.launch({{block(memory)}, {}, [=, &value, this] { value = *device_.bytes(memory); }});
  }
  device::Event copy_out(device::Event after) {
    return *device_.copy_to_host(host_.data(), memory_, kSizeBytes, after);
  }
  device::Event copy_in(device::Event after) { return copy_in(memory_, after); }
  device::Event copy_in(std::byte* memory, device::Event after) {
    return *device_.copy_from_host(memory, host_.data(), kSizeBytes, after);
  }
  void fill_host(int value) {
    std::fill(host_.begin(), host_.end(), static_cast<std::byte>(value));
  }

  SteppedDevice device_{{.seed = GetParam()}};
  std::byte* memory_ = device_.allocate(kSizeBytes);
  std::vector<std::byte> host_ = std::vector<std::byte>(kSizeBytes);
};

TEST_P(SteppedDeviceTest, OrderedUseIsRightWithoutViolations) {
  launch_write(memory_, 7);
  const device::Event out = copy_out(device_.record());
  ASSERT_TRUE(device_.wait(out).ok());
  EXPECT_EQ(host_[kSizeBytes - 1], std::byte{7});
  fill_host(9);
  std::byte seen{};
  const device::Event in = copy_in(device_.record());
  ASSERT_TRUE(device_.order_after(in).ok());
  launch_read(memory_, seen);
  device_.run_all();
  EXPECT_EQ(seen, std::byte{9});
  device_.release(memory_);
  EXPECT_THAT(device_.violations(), IsEmpty());
}

TEST_P(SteppedDeviceTest, ReleasedMemoryIsPoisoned) {
  launch_write(memory_, 7);
  device_.release(memory_);
  device_.run_all();
  EXPECT_EQ(*device_.bytes(memory_), kPoison);
  EXPECT_EQ(*device_.bytes(device_.allocate(kSizeBytes)), kPoison);
}

TEST_P(SteppedDeviceTest, AReleaseUnderACopyIsSeen) {
  copy_out(device::Event{});
  device_.release(memory_);
  EXPECT_THAT(device_.violations(), Contains("released before the copy ended"));
}

TEST_P(SteppedDeviceTest, ACopyIntoReusedMemoryThatComputeStillReadsIsSeen) {
  std::byte seen{};
  launch_read(memory_, seen);
  device_.release(memory_);
  copy_in(device_.allocate(kSizeBytes), device::Event{});
  EXPECT_THAT(device_.violations(), Contains("copied before compute was there"));
}

TEST_P(SteppedDeviceTest, WhatIsDoneUnderAnotherStreamIsSeen) {
  device_.launch_on(this, {{}, {block(memory_)}, [] {}}, device::Event{});
  copy_out(device_.record());
  EXPECT_THAT(device_.violations(), ElementsAre("copied while another stream was at work on it"));
  device_.run_all();
  device_.launch_on(this, {{block(memory_)}, {}, [] {}}, device::Event{});
  device_.release(memory_);
  EXPECT_THAT(device_.violations(), Contains("released while another stream was at work on it"));
}

TEST_P(SteppedDeviceTest, AnotherStreamThatDoesNotWaitForTheCopyInIsSeen) {
  copy_in(device::Event{});
  device_.launch_on(this, {{block(memory_)}, {}, [] {}}, device_.record());
  EXPECT_THAT(device_.violations(), ElementsAre("used before it arrived"));
}

TEST_P(SteppedDeviceTest, ComputeOnReleasedMemoryIsSeen) {
  device_.release(memory_);
  launch_write(memory_, 1);
  EXPECT_THAT(device_.violations(), ElementsAre("compute on memory that is not allocated"));
}

TEST_P(SteppedDeviceTest, ACopyOfReleasedMemoryIsSeen) {
  device_.release(memory_);
  copy_out(device_.record());
  EXPECT_THAT(device_.violations(), ElementsAre("copied memory that is not allocated"));
}

TEST_P(SteppedDeviceTest, ComputeThatDoesNotWaitForACopyInIsSeen) {
  copy_in(device::Event{});
  std::byte seen{};
  launch_read(memory_, seen);
  EXPECT_THAT(device_.violations(), ElementsAre("used before it arrived"));
}

TEST_P(SteppedDeviceTest, ACopyOutThatDoesNotWaitForComputeBringsPoison) {
  launch_write(memory_, 1);
  copy_out(device::Event{});
  device_.run_all();
  EXPECT_EQ(host_[0], kPoison);
  EXPECT_EQ(device_.torn_copies(), 1);
}

TEST_P(SteppedDeviceTest, ACopyOutThatWaitsForTooEarlyAPointBringsPoison) {
  const device::Event early = device_.record();
  launch_write(memory_, 1);
  copy_out(early);
  device_.run_all();
  EXPECT_EQ(host_[0], kPoison);
  EXPECT_EQ(device_.torn_copies(), 1);
}

TEST_P(SteppedDeviceTest, ACopyInThatWaitsForTooEarlyAPointIsSeen) {
  const device::Event early = device_.record();
  std::byte seen{};
  launch_read(memory_, seen);
  copy_in(early);
  EXPECT_THAT(device_.violations(), ElementsAre("copied before compute was there"));
}

TEST_P(SteppedDeviceTest, TwoCopiesOfOnePlaceAreSeen) {
  copy_in(device::Event{});
  copy_in(device::Event{});
  EXPECT_THAT(device_.violations(), ElementsAre("two copies of one place at once"));
}

TEST_P(SteppedDeviceTest, ACopyWhoseSourceComputeChangesBringsPoison) {
  fill_host(1);
  copy_out(device_.record());
  launch_write(memory_, 1);
  device_.run_all();
  EXPECT_EQ(device_.torn_copies(), 1);
  EXPECT_EQ(host_[0], kPoison);
  EXPECT_THAT(device_.violations(), IsEmpty()) << "a writer may not care for the copy any more";
}

TEST_P(SteppedDeviceTest, AnEventThatWasNeverRecordedIsSeen) {
  EXPECT_EQ(device_.wait(device::Event{12345}).code(), ErrorCode::kInternal);
  EXPECT_THAT(device_.violations(), ElementsAre("an event that was never recorded"));
  ASSERT_TRUE(device_.order_after(device::Event{12345}).ok());
  copy_in(device::Event{12345});
  EXPECT_FALSE(device_.has_passed(device::Event{12345}));
  EXPECT_EQ(device_.violations().size(), 4u);
}

TEST_P(SteppedDeviceTest, ASourceOnTheHostThatChangesIsSeen) {
  copy_in(device::Event{});
  ASSERT_TRUE(device_.step());
  fill_host(1);
  ASSERT_TRUE(device_.step());
  EXPECT_THAT(device_.violations(), ElementsAre("source changed during the copy"));
}

TEST_P(SteppedDeviceTest, HostMemoryUnpinnedUnderACopyIsSeen) {
  ASSERT_TRUE(device_.host_pinning()->pin(host_.data(), kSizeBytes).ok());
  copy_in(device::Event{});
  device_.host_pinning()->unpin(host_.data());
  EXPECT_THAT(device_.violations(), ElementsAre("unpinned before the copy ended"));
  device_.host_pinning()->unpin(host_.data());
  EXPECT_THAT(device_.violations(), Contains("unpinned what was not pinned"));
}

INSTANTIATE_TEST_SUITE_P(Seeds, SteppedDeviceTest, ::testing::Range<uint64_t>(1, 11));

TEST(SteppedDeviceDeathTest, TheCpuCannotUseItsAddresses) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  SteppedDevice device({});
  volatile std::byte* memory = device.allocate(kSizeBytes);
  EXPECT_DEATH(memory[0] = std::byte{1}, "");
}

TEST(SteppedDeviceOrderTest, CopiesOvertakeEachOtherAndASeedRepeats) {
  const auto first_to_end = [](uint64_t seed) {
    SteppedDevice device({.seed = seed});
    std::vector<std::byte> host(2 * kSizeBytes);
    std::byte* memory = device.allocate(2 * kSizeBytes);
    const device::Event first = *device.copy_from_host(memory, host.data(), kSizeBytes, {});
    const device::Event second =
        *device.copy_from_host(memory + kSizeBytes, host.data(), kSizeBytes, {});
    while (true) {
      if (device.has_passed(first)) return 1;
      if (device.has_passed(second)) return 2;
    }
  };
  std::set<int> outcomes;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    outcomes.insert(first_to_end(seed));
    EXPECT_EQ(first_to_end(seed), first_to_end(seed));
  }
  EXPECT_EQ(outcomes.size(), 2);
}

}  // namespace
}  // namespace teraio::testing
