#include "storage/striping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/units.h"
#include "io/drive_io.h"

namespace teraio::storage {
namespace {

using ::testing::ElementsAre;

TEST(Divide, FollowsTheWeights) {
  EXPECT_THAT(*divide(60, {1, 2, 3}, {100, 100, 100}, 1), ElementsAre(10, 20, 30));
}

TEST(Divide, WhatOneCannotHoldGoesToTheOthersByWeight) {
  EXPECT_THAT(*divide(70, {3, 1, 2}, {10, 100, 100}, 1), ElementsAre(10, 20, 40));
}

TEST(Divide, FillsEveryLimitToTheLastByte) {
  EXPECT_THAT(*divide(60, {5, 1, 1}, {10, 20, 30}, 16), ElementsAre(10, 20, 30));
  EXPECT_EQ(divide(61, {5, 1, 1}, {10, 20, 30}, 16), std::nullopt);
}

TEST(Divide, APartWithoutWeightIsTheLastResort) {
  EXPECT_THAT(*divide(50, {0, 1e9}, {100, 100}, 1), ElementsAre(0, 50));
  EXPECT_THAT(*divide(150, {0, 1e9}, {100, 100}, 1), ElementsAre(50, 100));
}

TEST(Divide, PartsAddUpWithinTheirLimits) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    const size_t count = 1 + random() % 8;
    std::vector<double> weights;
    std::vector<int64_t> limits;
    for (size_t i = 0; i < count; ++i) {
      weights.push_back(static_cast<double>(random() % 10));
      limits.push_back(static_cast<int64_t>(random() % 50) * 4096);
    }
    const int64_t room = std::accumulate(limits.begin(), limits.end(), int64_t{0});
    const int64_t total = static_cast<int64_t>(random() % 300) * 4096;
    const auto parts = divide(total, weights, limits, 16 * 4096);
    ASSERT_EQ(parts.has_value(), total <= room) << "round " << round;
    if (!parts) continue;
    EXPECT_EQ(std::accumulate(parts->begin(), parts->end(), int64_t{0}), total);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_GE((*parts)[i], 0);
      EXPECT_LE((*parts)[i], limits[i]);
      EXPECT_EQ((*parts)[i] % 4096, 0);
    }
  }
}

TEST(Striping, PiecesCoverTheExtentInOrder) {
  Striping striping({8 * kMiB, 16 * kMiB, 4 * kMiB});
  const auto pieces = striping.take(12 * kMiB);
  ASSERT_TRUE(pieces.has_value());
  int64_t next_bytes = 0;
  for (const Piece& piece : *pieces) {
    EXPECT_EQ(piece.extent_offset_bytes, next_bytes);
    next_bytes += piece.size_bytes;
  }
  EXPECT_EQ(next_bytes, 12 * kMiB);
  EXPECT_EQ(striping.free_bytes(), 16 * kMiB);
  striping.give_back(*pieces);
  EXPECT_EQ(striping.free_bytes(), striping.capacity_bytes());
}

TEST(Striping, ASmallExtentIsSplitOnlyWhenNoDriveHasRoomForIt) {
  Striping striping({kMiB, kMiB});
  EXPECT_EQ(striping.take(768 * kKiB)->size(), 1);
  EXPECT_EQ(striping.take(768 * kKiB)->size(), 1);
  EXPECT_EQ(striping.take(512 * kKiB)->size(), 2);
  EXPECT_EQ(striping.take(io::kBlockBytes), std::nullopt);
}

}  // namespace
}  // namespace teraio::storage
