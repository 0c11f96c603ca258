#include "engine/eviction_order.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "iteration/fixture/planned_program.h"

namespace teraio::engine {
namespace {

using testing::PlannedProgram;

class EvictionOrderTest : public ::testing::Test {
 protected:
  EvictionOrderTest() {
    for (size_t i = 0; i < t_.size(); ++i) t_[i].id = i + 1;
  }

  std::vector<uint64_t> order(trace::OpIndex position, bool is_lost = false) {
    const iteration::Schedule schedule = program_.schedule();
    const ProgramPlace place = {schedule, position, is_lost || position == iteration::kLost, 100};
    std::vector<uint64_t> ids;
    for (const LiveTensor* tensor : in_eviction_order({&t_[2], &t_[0], &t_[1]}, place))
      ids.push_back(tensor->id);
    return ids;
  }

  PlannedProgram program_;
  std::array<LiveTensor, 3> t_;
};

// Op 0 ran last. Since then, the program runs ops that the profile does not have.
TEST_F(EvictionOrderTest, OfAProgramThatHasLeftTheProfileTheNextUsesAreStillExpected) {
  t_[0].planned.profile_index = program_.persistent(t_[0]);
  t_[2].planned.profile_index = program_.persistent(t_[2]);
  program_.op({0});
  program_.op({1});
  t_[1].uses.last_op = 99;
  EXPECT_EQ(order(0, /*is_lost=*/true), (std::vector<uint64_t>{2, 3, 1}))
      << "a tensor that nobody knows was idle for an op";
  t_[1].uses.last_op = 100;
  EXPECT_EQ(order(0, /*is_lost=*/true), (std::vector<uint64_t>{3, 1, 2}))
      << "or is in use all the time";
}

TEST_F(EvictionOrderTest, TheOneThatIsUsedLastLeavesFirst) {
  for (LiveTensor& tensor : t_) tensor.planned.profile_index = program_.persistent(tensor);
  for (const int used : {0, 0, 0, 0, 1, 2}) program_.op({used});
  EXPECT_EQ(order(0), (std::vector<uint64_t>{3, 2, 1}));
}

TEST_F(EvictionOrderTest, OfTheEquallyFarTheOneWithTheSmallerIdLeavesFirst) {
  EXPECT_EQ(order(iteration::kLost), (std::vector<uint64_t>{1, 2, 3}));
}

}  // namespace
}  // namespace teraio::engine
