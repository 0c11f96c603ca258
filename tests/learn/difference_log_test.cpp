#include "learn/difference_log.h"

#include <gtest/gtest.h>

namespace teraio::learn {
namespace {

iteration::Profile profile_of_two_ops() {
  iteration::Profile profile;
  profile.trace.tensors = {{1, 64, true, trace::TensorKind::kParameter, "layer.weight"},
                           {2, 64, true, trace::TensorKind::kParameter, ""},
                           {3, 64, false, trace::TensorKind::kActivation, "output"}};
  profile.trace.ops.resize(2);
  profile.trace.ops[0].name = "aten::mm";
  profile.trace.ops[0].reads = {0};
  profile.trace.ops[1].name = "aten::add";
  profile.trace.ops[1].reads = {1, 2};
  return profile;
}

Difference difference(Difference::Kind kind, trace::OpIndex position, uint64_t structure = 7) {
  return {.kind = kind, .pattern = 1, .position = position, .structure = structure};
}

TEST(DifferenceLog, CountsIterationsThatDifferInTheSameWay) {
  DifferenceLog log;
  EXPECT_EQ(log.note(difference(Difference::Kind::kOps, 1), profile_of_two_ops()), 1u);
  EXPECT_EQ(log.note(difference(Difference::Kind::kOps, 1), profile_of_two_ops()), 0u);
  EXPECT_EQ(log.note(difference(Difference::Kind::kOps, 1, 8), profile_of_two_ops()), 2u);
  ASSERT_EQ(log.differences().size(), 2u);
  EXPECT_EQ(log.differences()[0].iteration_count, 2);
  EXPECT_EQ(log.differences()[1].iteration_count, 1);
}

TEST(DifferenceLog, NamesTheExpectedOpAndTheLastParameterWithAName) {
  DifferenceLog log;
  log.note(difference(Difference::Kind::kOps, 1), profile_of_two_ops());
  log.note(difference(Difference::Kind::kOps, 2), profile_of_two_ops());
  EXPECT_EQ(log.differences()[0].expected_op, "aten::add");
  EXPECT_EQ(log.differences()[0].parameter, "layer.weight");
  EXPECT_EQ(log.differences()[1].expected_op, "") << "behind the last op";
}

TEST(DifferenceLog, HoldsSoManyAndNoMore) {
  DifferenceLog log;
  for (uint64_t i = 0; i < DifferenceLog::kEntriesMax + 10; ++i)
    log.note(difference(Difference::Kind::kOps, 0, 100 + i), profile_of_two_ops());
  EXPECT_EQ(log.differences().size(), DifferenceLog::kEntriesMax);
}

}  // namespace
}  // namespace teraio::learn
