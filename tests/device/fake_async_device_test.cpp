#include "device/fake_async_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace teraio {
namespace {

using testing::Contains;
using testing::IsEmpty;

constexpr int64_t kSizeBytes = 8192;

// One block on the device, one on the host, and compute that reads or writes the former.
class FakeAsyncDeviceTest : public testing::TestWithParam<uint64_t> {
 protected:
  FakeAsyncDevice::Bytes block() const { return {device_memory_, kSizeBytes}; }

  void launch_write(int value) {
    device_.launch({{}, {block()}, [=, this] { std::memset(device_memory_, value, kSizeBytes); }});
  }
  void launch_read(std::byte& value) {
    device_.launch({{block()}, {}, [&value, this] { value = device_memory_[0]; }});
  }
  Event copy_out(Event after) {
    return *device_.copy_to_host(host_.data(), device_memory_, kSizeBytes, after);
  }
  Event copy_in(Event after) {
    return *device_.copy_from_host(device_memory_, host_.data(), kSizeBytes, after);
  }
  void fill_host(int value) {
    std::fill(host_.begin(), host_.end(), static_cast<std::byte>(value));
  }

  FakeAsyncDevice device_{{.seed = GetParam()}};
  std::byte* device_memory_ = device_.allocate(kSizeBytes);
  std::vector<std::byte> host_ = std::vector<std::byte>(kSizeBytes);
};

TEST_P(FakeAsyncDeviceTest, OrderedUseIsRightWithoutViolations) {
  launch_write(7);
  const Event out = copy_out(device_.record());
  ASSERT_TRUE(device_.wait(out).ok());
  EXPECT_EQ(host_[kSizeBytes - 1], std::byte{7});
  fill_host(9);
  std::byte seen{};
  const Event in = copy_in(out);
  ASSERT_TRUE(device_.order_after(in).ok());
  launch_read(seen);
  device_.run_all();
  EXPECT_EQ(seen, std::byte{9});
  device_.release(device_memory_);
  EXPECT_THAT(device_.violations(), IsEmpty());
}

TEST_P(FakeAsyncDeviceTest, NothingHappensBeforeItIsStepped) {
  launch_write(7);
  const Event out = copy_out(device_.record());
  EXPECT_EQ(device_.copies_under_way(), 1);
  EXPECT_EQ(device_.copies_waiting(), 1);
  while (!device_.has_passed(out)) continue;
  EXPECT_EQ(device_.copies_under_way(), 0);
}

TEST_P(FakeAsyncDeviceTest, AReleaseUnderACopyIsSeen) {
  copy_out(Event{});
  device_.release(device_memory_);
  EXPECT_THAT(device_.violations(), Contains("released before the copy ended"));
}

TEST_P(FakeAsyncDeviceTest, AReleaseUnderComputeIsSeen) {
  launch_write(1);
  device_.release(device_memory_);
  EXPECT_THAT(device_.violations(), Contains("released before compute was done with it"));
}

TEST_P(FakeAsyncDeviceTest, ASourceThatChangesIsSeen) {
  FakeAsyncDevice device({.seed = GetParam()});
  ASSERT_TRUE(
      device.copy_from_host(device.allocate(kSizeBytes), host_.data(), kSizeBytes, {}).ok());
  ASSERT_TRUE(device.step());
  fill_host(1);
  ASSERT_TRUE(device.step());
  EXPECT_THAT(device.violations(), Contains("source changed during the copy"));
}

TEST_P(FakeAsyncDeviceTest, WaitingForWhatNobodyWillDoIsAFailure) {
  EXPECT_EQ(device_.wait(Event{12345}).code(), ErrorCode::kInternal);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FakeAsyncDeviceTest, testing::Range<uint64_t>(1, 21));

// What depends on the order that the seed chooses: over some seeds it must come to light.
std::set<std::string> violations_over_seeds(
    const std::function<void(FakeAsyncDevice&, std::byte*, std::byte*)>& use) {
  std::set<std::string> all;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FakeAsyncDevice device({.seed = seed});
    std::vector<std::byte> host(kSizeBytes);
    use(device, device.allocate(kSizeBytes), host.data());
    device.run_all();
    for (const std::string& violation : device.violations()) all.insert(violation);
  }
  return all;
}

TEST(FakeAsyncDeviceRacesTest, ComputeThatDoesNotWaitForACopyInIsSeen) {
  EXPECT_THAT(violations_over_seeds([](auto& device, std::byte* memory, std::byte* host) {
                ASSERT_TRUE(device.copy_from_host(memory, host, kSizeBytes, {}).ok());
                device.launch({{{memory, kSizeBytes}}, {}, nullptr});
              }),
              Contains("used before it arrived"));
}

TEST(FakeAsyncDeviceRacesTest, ACopyOutThatDoesNotWaitForComputeIsSeen) {
  EXPECT_THAT(violations_over_seeds([](auto& device, std::byte* memory, std::byte* host) {
                device.launch({{}, {{memory, kSizeBytes}}, nullptr});
                ASSERT_TRUE(device.copy_to_host(host, memory, kSizeBytes, {}).ok());
              }),
              Contains("copied before compute was there"));
}

TEST(FakeAsyncDeviceRacesTest, ComputeThatWritesUnderACopyOutIsSeen) {
  EXPECT_THAT(violations_over_seeds([](auto& device, std::byte* memory, std::byte* host) {
                ASSERT_TRUE(device.copy_to_host(host, memory, kSizeBytes, {}).ok());
                device.launch({{}, {{memory, kSizeBytes}}, nullptr});
              }),
              Contains("written before it was copied out"));
}

TEST(FakeAsyncDeviceRacesTest, CopiesOvertakeEachOtherAndASeedRepeats) {
  const auto first_to_end = [](uint64_t seed) {
    FakeAsyncDevice device({.seed = seed});
    std::vector<std::byte> host(2 * kSizeBytes);
    std::byte* memory = device.allocate(2 * kSizeBytes);
    const Event first = *device.copy_from_host(memory, host.data(), kSizeBytes, {});
    const Event second = *device.copy_from_host(memory + kSizeBytes, host.data(), kSizeBytes, {});
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

TEST(FakeAsyncDeviceManualTest, AWaitingThreadGoesOnWhenTheTestSteps) {
  FakeAsyncDevice device({.progress = Progress::kManual});
  std::vector<std::byte> host(kSizeBytes, std::byte{5});
  std::byte* memory = device.allocate(kSizeBytes);
  std::thread waiter([&] {
    const Event end = *device.copy_from_host(memory, host.data(), kSizeBytes, {});
    EXPECT_TRUE(device.wait(end).ok());
    EXPECT_EQ(memory[0], std::byte{5});
  });
  device.wait_for_copies(1);
  device.run_all();
  waiter.join();
}

}  // namespace
}  // namespace teraio
