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

TEST_F(HostAddressSpaceTest, MovedPagesKeepTheirBytes) {
  ASSERT_TRUE(space_->commit(pages(0, 10)));
  fill(pages(0, 10), 5);
  if (!space_->can_move()) GTEST_SKIP() << "this system does not move pages";
  EXPECT_EQ(space_->move(pages(0, 10), 100 * kPageBytes), 10 * kPageBytes);
  expect_filled(pages(100, 10), 5);
}

TEST_F(HostAddressSpaceTest, ReplacedPagesAreNewOnes) {
  ASSERT_TRUE(space_->commit(pages(0, 10)));
  fill(pages(0, 10), 5);
  EXPECT_TRUE(space_->replace(pages(0, 10), 100 * kPageBytes));
  expect_filled(pages(100, 10), 0);
}

// The caller may not know every boundary between mappings.
TEST_F(HostAddressSpaceTest, PagesOfDifferentOriginMoveTogether) {
  if (!space_->can_move()) GTEST_SKIP() << "this system does not move pages";
  for (int64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(space_->commit(pages(20 * i, 3)));
    fill(pages(20 * i, 3), i);
    ASSERT_EQ(space_->move(pages(20 * i, 3), (500 + 3 * i) * kPageBytes), 3 * kPageBytes);
  }
  EXPECT_EQ(space_->move(pages(500, 24), 1000 * kPageBytes), 24 * kPageBytes);
  for (int64_t i = 0; i < 24; ++i) *space_->at((1000 + i) * kPageBytes) = std::byte{1};
}

using HostAddressSpaceDeathTest = HostAddressSpaceTest;

TEST_F(HostAddressSpaceDeathTest, UnbackedAddressesAreAFault) {
  ASSERT_TRUE(space_->commit(pages(0, 2)));
  ASSERT_EQ(space_->move(pages(0, 1), 8 * kPageBytes), kPageBytes);
  ASSERT_TRUE(space_->decommit(pages(1, 1)));
  EXPECT_DEATH(fill(pages(0, 1), 1), "");
  EXPECT_DEATH(fill(pages(1, 1), 1), "");
}

}  // namespace
}  // namespace teraio::device
