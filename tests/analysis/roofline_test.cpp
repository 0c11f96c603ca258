// The migration roofline, where it is known by hand; and the threads that it is computed with.
#include "analysis/roofline.h"

#include <gtest/gtest.h>

#include <atomic>

#include "analysis/parallel_for.h"
#include "simulate/scenario.h"

namespace teraio::analysis {
namespace {

using namespace testing;

TEST(MigrationRoofline, IsTransferTimeUntilComputeTakesLonger) {
  const int64_t rates[] = {kBytesPerNs, 5 * kBytesPerNs, 10 * kBytesPerNs, 40 * kBytesPerNs};
  const auto points = migration_roofline(two_weights_in_turn(), 1000, rates);
  ASSERT_TRUE(points.ok()) << points.status().message();
  ASSERT_EQ(points->size(), 4);
  EXPECT_EQ((*points)[1].bytes_per_second, rates[1]);
  EXPECT_NEAR((*points)[0].fraction_of_ideal, 0.1, 1e-3);
  EXPECT_NEAR((*points)[1].fraction_of_ideal, 0.5, 1e-2);
  EXPECT_NEAR((*points)[2].fraction_of_ideal, 1.0, 1e-2);
  EXPECT_EQ((*points)[3].fraction_of_ideal, 1.0);
}

TEST(MigrationRoofline, IsFlatWhereEverythingFits) {
  const int64_t rates[] = {1, kBytesPerNs};
  const auto points = migration_roofline(two_weights_in_turn(), 2000, rates);
  ASSERT_TRUE(points.ok());
  for (const RooflinePoint& point : *points) EXPECT_EQ(point.fraction_of_ideal, 1.0);
}

TEST(MigrationRoofline, ThereIsNoneWhereAnOpDoesNotFit) {
  const int64_t rates[] = {kBytesPerNs};
  const auto points = migration_roofline(two_weights_in_turn(), 999, rates);
  EXPECT_EQ(points.status().code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(points.status().message(),
            "an op needs 1000 bytes at once, the device has 999: no bandwidth helps");
}

TEST(ParallelFor, EachPieceIsDoneOnce) {
  for (int threads : {0, 1, 2, 5})
    for (size_t count : {0, 1, 3, 100}) {
      std::vector<std::atomic<int>> done(count);
      parallel_for(count, threads, [&](size_t i) { ++done[i]; });
      for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1);
    }
}

}  // namespace
}  // namespace teraio::analysis
