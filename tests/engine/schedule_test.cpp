#include "engine/schedule.h"

#include <gtest/gtest.h>

#include "engine/fixture/planned_program.h"

namespace teraio::engine {
namespace {

using testing::kUnitBytes;
using testing::PlannedProgram;

class ScheduleTest : public ::testing::Test {
 protected:
  trace::TensorIndex persistent() {
    LiveTensor tensor;
    tensor.id = ++last_id_;
    tensor.size_bytes = kUnitBytes;
    return program_.persistent(tensor);
  }

  PlannedProgram program_;

 private:
  uint64_t last_id_ = 0;
};

TEST_F(ScheduleTest, IsEmptyWithoutAProfile) { EXPECT_TRUE(Schedule().is_empty()); }

TEST_F(ScheduleTest, IssuesMigrationsAtTheirTriggersInThePlansOrder) {
  const trace::TensorIndex a = persistent();
  const trace::TensorIndex b = persistent();
  for (int i = 0; i < 4; ++i) program_.op({a, b});
  program_.offload(b, 2);
  program_.prefetch(a, 0, 1);
  program_.offload(a, 2);
  const Schedule schedule = program_.schedule();
  ASSERT_EQ(schedule.issued_at(0).size(), 1u);
  EXPECT_EQ(schedule.issued_at(0)[0].action, plan::Action::kPrefetch);
  EXPECT_TRUE(schedule.issued_at(1).empty());
  ASSERT_EQ(schedule.issued_at(2).size(), 2u);
  EXPECT_EQ(schedule.issued_at(2)[0].tensor, b);
  EXPECT_EQ(schedule.issued_at(2)[1].tensor, a);
  EXPECT_TRUE(schedule.issued_at(3).empty());
}

TEST_F(ScheduleTest, AMigrationAfterTheLastOpIsIssuedBeforeIt) {
  const trace::TensorIndex a = persistent();
  program_.op({a});
  program_.op({});
  program_.offload(a, 2);
  EXPECT_EQ(program_.schedule().issued_at(1).size(), 1u);
}

TEST_F(ScheduleTest, DistanceOfAPersistentTensorGoesOnInTheNextIteration) {
  const trace::TensorIndex a = persistent();
  program_.idle_ops(2);
  program_.op({a});
  program_.idle_ops(2);
  const Schedule schedule = program_.schedule();
  EXPECT_EQ(schedule.distance_to_use(a, 0), 2);
  EXPECT_EQ(schedule.distance_to_use(a, 2), 0);
  EXPECT_EQ(schedule.distance_to_use(a, 3), 4);
}

TEST_F(ScheduleTest, ATensorThatIsNotNeededAnyMoreIsFartherThanAll) {
  const trace::TensorIndex a = persistent();
  const trace::TensorIndex gone = program_.born(1);
  program_.op({a}, {gone});
  program_.idle_ops(4);
  const Schedule schedule = program_.schedule();
  EXPECT_EQ(schedule.distance_to_use(gone, 1), 5);
  EXPECT_LT(schedule.distance_to_use(a, 1), 5);
}

TEST_F(ScheduleTest, APersistentTensorWithoutUsesIsFartherThanAll) {
  const trace::TensorIndex a = persistent();
  program_.idle_ops(3);
  EXPECT_EQ(program_.schedule().distance_to_use(a, 1), 3);
}

TEST_F(ScheduleTest, NewbornBytesAreFirstTouchesAndWorkspace) {
  const trace::TensorIndex old = persistent();
  const trace::TensorIndex first = program_.born(2);
  const trace::TensorIndex second = program_.born(3);
  program_.op({old}, {first}, {}, /*workspace_units=*/1);
  program_.op({first}, {old, second});
  const Schedule schedule = program_.schedule();
  EXPECT_EQ(schedule.newborn_bytes(0), 3 * kUnitBytes);
  EXPECT_EQ(schedule.newborn_bytes(1), 3 * kUnitBytes) << "only the second is new";
}

}  // namespace
}  // namespace teraio::engine
