#include "device/host_address_space.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>

#include "base/units.h"
#include "device/device.h"

namespace teraio::device {
namespace {

class HostAddressSpaceTest : public ::testing::Test {
 protected:
  HostAddressSpaceTest() : space_(std::move(*HostAddressSpace::reserve(16 * kMiB, kMiB))) {}

  static ByteRange pages(int64_t first, int64_t count) {
    return {first * kPageBytes, count * kPageBytes};
  }
  void fill(ByteRange range, int value) {
    std::memset(space_->at(range.begin_bytes), value, range.size_bytes);
  }
  void expect_filled(ByteRange range, int value) {
    for (int64_t i = range.begin_bytes; i < range.end_bytes(); ++i)
      ASSERT_EQ(*space_->at(i), static_cast<std::byte>(value)) << i;
  }

  std::unique_ptr<HostAddressSpace> space_;
};

TEST_F(HostAddressSpaceTest, StartsOnAHugePage) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(space_->at(0)) % (2 * kMiB), 0);
}

TEST_F(HostAddressSpaceTest, ImpossibleSizesAreUnsupported) {
  const auto space = HostAddressSpace::reserve(int64_t{1} << 60, int64_t{1} << 58);
  EXPECT_EQ(space.status().code(), ErrorCode::kUnsupported);
}

TEST_F(HostAddressSpaceTest, LessIsTakenWhereThatIsEnough) {
  const auto space = HostAddressSpace::reserve(int64_t{1} << 60, kMiB);
  ASSERT_TRUE(space.ok());
  EXPECT_GE((*space)->size_bytes(), kGiB);
}

TEST_F(HostAddressSpaceTest, PagesThatHaveReturnedComeBackEmpty) {
  ASSERT_TRUE(space_->commit(pages(0, 10)));
  fill(pages(0, 10), 5);
  ASSERT_TRUE(space_->decommit(pages(2, 3)));
  ASSERT_TRUE(space_->commit(pages(2, 3)));
  expect_filled(pages(2, 3), 0);
  expect_filled(pages(5, 5), 5);
}

using HostAddressSpaceDeathTest = HostAddressSpaceTest;

TEST_F(HostAddressSpaceDeathTest, UnbackedAddressesAreAFault) {
  ASSERT_TRUE(space_->commit(pages(0, 2)));
  ASSERT_TRUE(space_->decommit(pages(1, 1)));
  EXPECT_DEATH(fill(pages(1, 1), 1), "");
  EXPECT_DEATH(fill(pages(2, 1), 1), "");
}

}  // namespace
}  // namespace teraio::device
