#include "device/counting_device.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/units.h"

namespace teraio::device {
namespace {

constexpr int64_t kTiB = 1024 * kGiB;

TEST(CountingDevice, CountsTerabytesThatNoMachineHas) {
  const auto device = make_counting_device(4 * kTiB);
  std::byte* first = device->allocate(3 * kTiB);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(device->allocate(2 * kTiB), nullptr);
  device->release(first);
  std::byte* second = device->allocate(2 * kTiB);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(device->usage().allocated_bytes, 2 * kTiB);
  EXPECT_EQ(device->usage().allocated_peak_bytes, 3 * kTiB);
  device->reset_peak();
  EXPECT_EQ(device->usage().allocated_peak_bytes, 2 * kTiB);
  device->release(second);
}

TEST(CountingDevice, EveryBlockHasAnAddressOfItsOwn) {
  const auto device = make_counting_device(kTiB);
  std::set<std::byte*> seen;
  for (const int64_t size_bytes : {int64_t{0}, int64_t{1}, 3 * kGiB, int64_t{5}}) {
    std::byte* memory = device->allocate(size_bytes);
    EXPECT_TRUE(seen.insert(memory).second);
  }
  for (std::byte* memory : seen) device->release(memory);
  EXPECT_EQ(device->allocated_bytes(), 0);
}

TEST(CountingDevice, MemoryOutsideCountsAgainstTheBudget) {
  const auto device = make_counting_device(kMiB);
  device->add_outside_bytes(kMiB);
  EXPECT_EQ(device->usage().allocated_peak_bytes, kMiB);
  EXPECT_EQ(device->allocate(1), nullptr);
  device->add_outside_bytes(-kMiB);
  EXPECT_EQ(device->allocated_bytes(), 0);
}

TEST(CountingDevice, HasNothingToCopy) {
  const auto device = make_counting_device(kMiB);
  std::byte* memory = device->allocate(8);
  std::vector<std::byte> host(8);
  EXPECT_EQ(device->copy_to_host(host.data(), memory, 8, {}).status().code(),
            ErrorCode::kUnsupported);
  device->release(memory);
}

}  // namespace
}  // namespace teraio::device
