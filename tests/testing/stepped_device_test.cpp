// Ordered use of the device is right in every order of steps, and use without order is not in some.
#include "testing/stepped_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace teraio::testing {
namespace {

constexpr int64_t kSizeBytes = 8192;
constexpr std::byte kOld{5};
constexpr std::byte kNew{7};
constexpr std::byte kPoison{0xCD};

// What a copy brings to the host, and a copy of it back to compute, with and without their waits.
class Program {
 public:
  explicit Program(uint64_t seed) : device_({.seed = seed}) {
    launch_write(kOld);
    device_.run_all();
  }

  std::byte write_and_copy_out(bool waits) {
    launch_write(kNew);
    return copied_out(waits ? device_.record() : device::Event());
  }
  std::byte copy_in_and_read(bool waits) {
    std::vector<std::byte> host(kSizeBytes, kNew);
    const device::Event in = *device_.copy_from_host(memory_, host.data(), kSizeBytes, {});
    if (waits) EXPECT_TRUE(device_.order_after(in).ok());
    std::byte seen{};
    device_.launch([&] { seen = *device_.bytes(memory_); });
    device_.run_all();
    return seen;
  }

 private:
  void launch_write(std::byte value) {
    device_.launch(
        [=, this] { std::memset(device_.bytes(memory_), static_cast<int>(value), kSizeBytes); });
  }
  std::byte copied_out(device::Event after) {
    std::vector<std::byte> host(kSizeBytes);
    const device::Event out = *device_.copy_to_host(host.data(), memory_, kSizeBytes, after);
    EXPECT_TRUE(device_.wait(out).ok());
    return host[kSizeBytes - 1];
  }

  SteppedDevice device_;
  std::byte* memory_ = device_.allocate(kSizeBytes);
};

template <typename Run>
std::set<std::byte> outcomes(Run run) {
  std::set<std::byte> found;
  for (uint64_t seed = 1; seed <= 20; ++seed) found.insert(run(Program(seed)));
  return found;
}

TEST(SteppedDeviceTest, ACopyOutThatWaitsForComputeHasItsBytes) {
  const auto run = [](bool waits) {
    return outcomes([=](Program&& program) { return program.write_and_copy_out(waits); });
  };
  EXPECT_EQ(run(true), std::set{kNew});
  EXPECT_EQ(run(false), (std::set{kOld, kNew}));
}

TEST(SteppedDeviceTest, ComputeThatWaitsForACopyInHasItsBytes) {
  const auto run = [](bool waits) {
    return outcomes([=](Program&& program) { return program.copy_in_and_read(waits); });
  };
  EXPECT_EQ(run(true), std::set{kNew});
  EXPECT_EQ(run(false), (std::set{kOld, kNew, kPoison}));
}

TEST(SteppedDeviceTest, AnEventThatWasNeverRecordedIsAFailure) {
  EXPECT_EQ(SteppedDevice({}).wait(device::Event{12345}).code(), ErrorCode::kInternal);
}

TEST(SteppedDeviceTest, CopiesOvertakeEachOtherAndASeedRepeats) {
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
  std::set<int> firsts;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    firsts.insert(first_to_end(seed));
    EXPECT_EQ(first_to_end(seed), first_to_end(seed));
  }
  EXPECT_EQ(firsts.size(), 2);
}

TEST(SteppedDeviceDeathTest, TheCpuCannotUseItsAddresses) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  SteppedDevice device({});
  volatile std::byte* memory = device.allocate(kSizeBytes);
  EXPECT_DEATH(memory[0] = std::byte{1}, "");
}

}  // namespace
}  // namespace teraio::testing
