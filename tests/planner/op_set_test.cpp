#include "planner/op_set.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <random>
#include <set>

namespace teraio::planner {
namespace {

void expect_same(const OpSet& ops, const std::set<int64_t>& model) {
  for (int64_t op = 0; op < ops.op_count(); ++op) {
    const auto next = model.lower_bound(op);
    ASSERT_EQ(ops.next(op, ops.op_count()), next == model.end() ? ops.op_count() : *next) << op;
    const auto after = model.upper_bound(op);
    ASSERT_EQ(ops.previous(op), after == model.begin() ? -1 : *std::prev(after)) << op;
  }
}

class OpSets : public ::testing::TestWithParam<int64_t> {};

TEST_P(OpSets, FindWhatASortedSetFinds) {
  OpSet ops(GetParam());
  std::set<int64_t> model;
  std::mt19937_64 random(7);
  for (int change = 0; change < 40; ++change) {
    const auto op = static_cast<int64_t>(random() % static_cast<uint64_t>(GetParam()));
    if (change % 3 == 2 && !model.empty()) {
      ops.erase(*model.begin());
      model.erase(model.begin());
    } else {
      ops.insert(op);
      model.insert(op);
    }
    expect_same(ops, model);
  }
}

INSTANTIATE_TEST_SUITE_P(OfSizes, OpSets, ::testing::Values(1, 63, 64, 65, 4096, 4097, 10'000));

TEST(OpSet, APositionPastTheEndHasNoNextMember) {
  OpSet ops(64);
  ops.insert(63);
  EXPECT_EQ(ops.next(64, 99), 99);
}

}  // namespace
}  // namespace teraio::planner
