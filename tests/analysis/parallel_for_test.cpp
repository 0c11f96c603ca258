#include "analysis/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace teraio::analysis {
namespace {

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
