// What a plan keeps on a tier lies in every iteration where it was laid out when it was adopted.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "engine/fixture/real_engine.h"

namespace teraio::engine {
namespace {

using testing::kUnitBytes;
using testing::PlannedProgram;

class FixedPlaces : public testing::RealEngine {
 protected:
  void open(int64_t ssd_units, int64_t budget_units = 20) {
    open_device(budget_units * kUnitBytes);
    open_ssd({.capacity_bytes = ssd_units * kUnitBytes, .checksum = true});
    open_engine();
  }

  // Until its transfer has ended and the engine knows.
  void settle(const LiveTensor* tensor) {
    const auto is_moving = [&] {
      return tensor->residency == Residency::kOffloading || tensor->transfer.is_copy_pending;
    };
    for (int i = 0; i < 10'000 && is_moving(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ASSERT_EQ(engine_->begin_op(iteration::kLost, {}), Status());
      engine_->end_op(iteration::kLost, {}, 0);
    }
    ASSERT_FALSE(is_moving());
  }
  void wait_until_out(const LiveTensor* tensor) {
    settle(tensor);
    ASSERT_EQ(tensor->residency, Residency::kOffloaded);
  }
  static storage::Extent place(const LiveTensor* tensor) {
    return tensor->copy(plan::Tier::kSsd).extent;
  }

  // A weight that leaves between its uses, and two activations, one after the other.
  void follow_plan_of(const LiveTensor& weight) {
    PlannedProgram program;
    const trace::TensorIndex w = program.persistent(weight);
    const trace::TensorIndex a = program.born(3);
    const trace::TensorIndex b = program.born(3);
    program.op({w, a});
    program.idle_ops(1);
    program.op({a}, {}, {a});
    program.op({b});
    program.idle_ops(1);
    program.op({b, w}, {}, {b});
    program.offload(w, 1);
    program.offload(a, 1);
    program.offload(b, 4);
    engine_->plan().follow(program.shared_schedule());
    engine_->plan().lay_out();
  }
  // The places of the weight and of both activations.
  std::vector<storage::Extent> iterate(LiveTensor* weight) {
    std::vector<storage::Extent> places;
    LiveTensor* a = born(3);
    op(0, {{weight, false}, {a, false}});
    op(1, {});
    places.push_back(place(weight));
    places.push_back(place(a));
    wait_until_out(a);
    op(2, {{a, false}});
    settle(a);
    die(a);
    LiveTensor* b = born(3);
    op(3, {{b, false}});
    op(4, {});
    places.push_back(place(b));
    wait_until_out(b);
    op(5, {{b, false}, {weight, true}});
    settle(b);
    settle(weight);
    die(b);
    engine_->plan().start_iteration();
    return places;
  }
};

TEST_F(FixedPlaces, AreTheSameInEveryIterationAndSharedOverTime) {
  open(100);
  LiveTensor* weight = born(2);
  follow_plan_of(*weight);
  EXPECT_EQ(ssd_->counters().laid_out_bytes, 5 * kUnitBytes) << "both activations have the same";
  const std::vector<storage::Extent> first = iterate(weight);
  for (const storage::Extent& extent : first) ASSERT_TRUE(extent.is_valid());
  EXPECT_EQ(first[1], first[2]);
  EXPECT_NE(first[0].id, first[1].id);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(iterate(weight), first);
  EXPECT_EQ(ssd_->counters().displaced_count, 0);
  EXPECT_EQ(engine_->counters().skipped_migrations, 0);
}

TEST_F(FixedPlaces, ACopyThatIsThereOutlivesANewPlan) {
  open(100);
  LiveTensor* weight = born(2);
  follow_plan_of(*weight);
  iterate(weight);
  LiveTensor* a = born(3);
  op(0, {{weight, false}, {a, false}});
  op(1, {});
  wait_until_out(weight);
  wait_until_out(a);
  const storage::Extent weights = place(weight);
  follow_plan_of(*weight);
  EXPECT_EQ(ssd_->counters().laid_out_bytes, 3 * kUnitBytes) << "the weight has its own";
  const std::vector<storage::Extent> places = iterate(weight);
  EXPECT_EQ(places[0], weights);
  EXPECT_NE(places[1].id, place(a).id);
  op(iteration::kLost, {{a, false}});
}

TEST_F(FixedPlaces, APlanThatDoesNotFitRunsWithoutThem) {
  open(4);
  LiveTensor* weight = born(2);
  follow_plan_of(*weight);
  EXPECT_EQ(ssd_->counters().laid_out_bytes, 0);
  LiveTensor* a = born(3);
  op(0, {{weight, false}, {a, false}});
  op(1, {});
  wait_until_out(weight);
  EXPECT_EQ(engine_->counters().planned_offloads, 1);
  EXPECT_EQ(engine_->counters().skipped_migrations, 1) << "no room for the activation";
  op(2, {{a, false}});
  op(5, {{weight, false}});
}

TEST_F(FixedPlaces, GiveWayToWhatHasToLeaveOnDemand) {
  open(14, 12);
  LiveTensor* weight = born(2);
  follow_plan_of(*weight);
  EXPECT_EQ(ssd_->counters().laid_out_bytes, 5 * kUnitBytes);
  std::vector<LiveTensor*> others;
  for (int i = 0; i < 6; ++i) others.push_back(born(3));
  op(iteration::kLost, {{weight, false}});
  for (LiveTensor* other : others) op(iteration::kLost, {{other, false}});
  EXPECT_EQ(ssd_->counters().laid_out_bytes, 0);
  EXPECT_GT(ssd_->counters().reserved_peak_bytes, 9 * kUnitBytes) << "more than was left beside it";
}

}  // namespace
}  // namespace teraio::engine
