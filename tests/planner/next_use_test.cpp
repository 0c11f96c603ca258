// Plans by next use, and the tier that each copy rests on.
#include "planner/next_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/scenario.h"
#include "planner/selection.h"
#include "planner/tier_choice.h"
#include "testing/generated_trace.h"

namespace teraio::planner {
namespace {

using plan::Action;
using plan::Tier;
using ::testing::ElementsAre;
using testing::machine;
using testing::op;
using testing::tensor;
using ::testing::UnorderedElementsAre;

// A problem with everything that it refers to.
class NextUseTest : public ::testing::Test {
 protected:
  // Persistent tensors of `sizes`; ops that use them in turn: `uses`, in which a negative number
  // -1 - t means that the op writes tensor t.
  void make(const std::vector<int64_t>& sizes, const std::vector<int>& uses, int64_t device_bytes,
            int64_t host_bytes) {
    trace_ = {"test", "modelled", {}, {}};
    for (size_t i = 0; i < sizes.size(); ++i)
      trace_.tensors.push_back(tensor(static_cast<int64_t>(i), sizes[i], true));
    for (int use : uses)
      trace_.ops.push_back(use >= 0 ? op({static_cast<trace::TensorIndex>(use)})
                                    : op({}, {static_cast<trace::TensorIndex>(-1 - use)}));
    hardware_ = machine(device_bytes, host_bytes);
  }

  template <typename Look>
  void solve(Look look) {
    const trace::TraceIndex index(trace_);
    const trace::Lifetimes lifetimes = lifetimes_of(index);
    const plan::Limits limits;
    look(Problem{trace_, index, lifetimes, hardware_, limits});
  }

  // The plan of the third round; each takes the timeline to be ideal.
  std::optional<plan::Plan> settled(double headroom_share = 0) {
    std::optional<plan::Plan> plan;
    solve([&](const Problem& problem) {
      NextUse next_use(
          problem,
          {.headroom_share = headroom_share, .reads_late = reads_late_, .relays = relays_});
      for (int round = 0; round < 3; ++round) plan = next_use.next(Timeline(problem.op_ns()));
    });
    return plan;
  }

  std::vector<trace::TensorIndex> moved() {
    std::vector<trace::TensorIndex> tensors;
    const std::optional<plan::Plan> plan = settled();
    for (const plan::Migration& migration : plan.value_or(plan::Plan()).migrations)
      if (migration.action == Action::kPrefetch) tensors.push_back(migration.tensor);
    return tensors;
  }

  // The tier of a tensor in the settled plan.
  Tier tier_of(trace::TensorIndex tensor) {
    const std::optional<plan::Plan> plan = settled();
    for (const plan::Migration& migration : plan.value_or(plan::Plan()).migrations)
      if (migration.tensor == tensor) return migration.tier;
    ADD_FAILURE() << "tensor " << tensor << " does not move";
    return Tier::kSsd;
  }

  bool reads_late_ = false;
  bool relays_ = false;
  trace::Trace trace_;
  hardware::Hardware hardware_;
};

// 0 is used again at once; of 1 and 2 there is room for one beside it.
TEST_F(NextUseTest, WhatIsUsedNextStays) {
  make({50, 50, 50}, {0, 0, 1, 0, 0, 2, 0, 0}, 100, 0);
  EXPECT_THAT(moved(), UnorderedElementsAre(1, 2));
}

// In the last ops 0 and 2 are used next, and 1 only when the next iteration begins.
TEST_F(NextUseTest, TheNextIterationWaitsForTheEndOfThisOne) {
  make({50, 50, 50}, {1, 2, 2, 0, 2, 0}, 100, 0);
  EXPECT_THAT(moved(), UnorderedElementsAre(0, 1, 2));
}

// Reads that take memory long before the channel comes to them drive out what could have stayed.
TEST_F(NextUseTest, MoreStaysWhereReadsTakeMemoryLate) {
  testing::Random random(1);
  size_t early_count = 0;
  size_t late_count = 0;
  for (int i = 0; i < 50; ++i) {
    std::vector<int> uses;
    for (int k = 0; k < 24; ++k) uses.push_back(static_cast<int>(random.between(0, 7)));
    make(std::vector<int64_t>(8, 50), uses, 250, 0);
    reads_late_ = false;
    early_count += moved().size();
    reads_late_ = true;
    late_count += moved().size();
  }
  EXPECT_LT(late_count, early_count);
}

TEST_F(NextUseTest, NothingLeavesWhereEverythingFits) {
  make({50, 50, 50}, {0, 1, 2, 0, 1, 2}, 150, 0);
  EXPECT_TRUE(moved().empty());
}

// The budget would hold both; a third of it is left for writes.
TEST_F(NextUseTest, HeadroomIsLeftForWrites) {
  make({50, 50}, {0, 1, 0, 1}, 100, 0);
  EXPECT_TRUE(settled()->migrations.empty());
  EXPECT_FALSE(settled(0.4)->migrations.empty());
}

// 0 and 1 pass many times in an iteration, 2 passes once; 3 is all that fits.
TEST_F(NextUseTest, HostMemoryGoesToWhatPassesMostOften) {
  make({40, 40, 40, 100}, {-1, 3, -2, 3, -1, 3, -2, 3, -1, 3, -2, 3, -3, 3}, 140, 80);
  EXPECT_EQ(tier_of(0), Tier::kHost);
  EXPECT_EQ(tier_of(1), Tier::kHost);
  EXPECT_EQ(tier_of(2), Tier::kSsd);
}

// The drives need 400 ns to write 2 and 40 to read it, and it is used again after 200.
TEST_F(NextUseTest, WhatTheDrivesCannotWriteInTimeRestsInHostMemory) {
  make({40, 40, 40, 100}, {-1, 3, 3, 3, 3, 3, 3, -2, -3, 3, 2, 3}, 140, 40);
  hardware_.drives[0].rates.write_bytes_per_second /= 10;
  EXPECT_EQ(tier_of(2), Tier::kHost);
}

// The last op writes 0. Host memory has room for it until 1 passes.
class RelayTest : public NextUseTest {
 protected:
  RelayTest() {
    make({3, 60, 108, 1}, {3, 3, 3, -2, 2, -2, 2, -2, 2, -1}, 110, 60);
    trace_.tensors[1].persistent = false;
    trace_.ops[7].frees = {1};
  }

  static void expect_a_relay(const plan::Plan& plan) {
    std::vector<plan::Migration> of_0;
    for (const plan::Migration& migration : plan.migrations)
      if (migration.tensor == 0) of_0.push_back(migration);
    EXPECT_THAT(of_0, ElementsAre(testing::offload(0, 0, 9, Tier::kHost),
                                  testing::prefetch(0, 1, 2, Tier::kHost),
                                  testing::offload(0, 2, 3), testing::prefetch(0, 9, 9)));
  }
};

TEST_F(RelayTest, ACopyRestsInHostMemoryBeforeTheDrivesHaveIt) {
  EXPECT_EQ(tier_of(0), Tier::kSsd);
  relays_ = true;
  expect_a_relay(settled().value_or(plan::Plan()));
}

TEST_F(RelayTest, MovesThatAreChosenByPressureHaveRelaysToo) {
  solve([&](const Problem& problem) {
    PlanBuilder builder(problem, {.op_ns = problem.op_ns()});
    EXPECT_TRUE(select_to_fit(builder, 0).ok());
    EXPECT_TRUE(relay_writes(builder, problem.op_ns()));
    expect_a_relay(plan_of(builder));
    EXPECT_LE(builder.excess().max(), 0);
  });
}

TEST_F(NextUseTest, MovesThatAreChosenByPressureLeaveHeadroom) {
  make({50, 50, 50, 50}, {0, 1, 2, 3}, 200, 0);
  solve([](const Problem& problem) {
    PlanBuilder without(problem, {.op_ns = problem.op_ns()});
    select_in_time(without, 0);
    EXPECT_EQ(without.excess().max(), 0);
    PlanBuilder with(problem, {.op_ns = problem.op_ns()});
    select_in_time(with, 0, .2);
    EXPECT_LE(with.excess().max(), -40);
  });
}

TEST_F(NextUseTest, TiersWithoutRoomAreNoPlan) {
  make({50, 50, 50}, {-1, -2, -3}, 50, 60);
  hardware_.drives.clear();
  EXPECT_EQ(settled(), std::nullopt);
}

}  // namespace
}  // namespace teraio::planner
