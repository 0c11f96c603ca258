// The curve against a plain array, on random operations.
#include "planner/memory_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "testing/generated_trace.h"

namespace teraio::planner {
namespace {

struct Plain {
  std::vector<int64_t> values;
  std::vector<double> weights;
  size_t at(int64_t op) const { return static_cast<size_t>(op) % values.size(); }
};

class MemoryCurves : public ::testing::TestWithParam<int64_t> {};

TEST_P(MemoryCurves, AgreeWithAnArray) {
  testing::Random random(static_cast<uint64_t>(GetParam()));
  const int64_t count = GetParam();
  Plain plain;
  for (int64_t k = 0; k < count; ++k) {
    plain.values.push_back(random.between(-50, 50));
    plain.weights.push_back(static_cast<double>(random.between(0, 9)));
  }
  MemoryCurve curve(plain.values, plain.weights);
  for (int round = 0; round < 300; ++round) {
    const int64_t first = random.between(0, 2 * count - 1);
    const int64_t end = first + random.between(0, count);
    const int64_t amount = random.between(-30, 30);
    const int64_t bytes = random.between(1, 60);
    curve.add(first, end, amount);
    for (int64_t k = first; k < end; ++k) plain.values[plain.at(k)] += amount;
    double relief = 0;
    int64_t last = first - 1;
    int64_t highest = std::numeric_limits<int64_t>::min() / 4;
    for (int64_t k = first; k < end; ++k) {
      const int64_t value = plain.values[plain.at(k)];
      relief += plain.weights[plain.at(k)] * std::clamp<double>(value, 0, bytes);
      highest = std::max(highest, value);
      if (value > amount) last = k;
    }
    EXPECT_DOUBLE_EQ(curve.relief(first, end, bytes), relief);
    EXPECT_EQ(curve.last_above(first, end, amount), last);
    EXPECT_EQ(curve.max(first, end), highest);
    EXPECT_EQ(curve.max(), *std::max_element(plain.values.begin(), plain.values.end()));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, MemoryCurves, ::testing::Values(1, 2, 7, 64, 100, 1000));

}  // namespace
}  // namespace teraio::planner
