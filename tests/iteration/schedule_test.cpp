#include "iteration/schedule.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include "iteration/fixture/planned_program.h"
#include "testing/sanitized.h"

namespace teraio::iteration {
namespace {

using testing::kUnitBytes;
using testing::PlannedProgram;

class ScheduleTest : public ::testing::Test {
 protected:
  trace::TensorIndex persistent() { return program_.persistent(++last_id_, kUnitBytes); }

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

TEST_F(ScheduleTest, IndexesItsProfile) {
  const trace::TensorIndex old = persistent();
  const trace::TensorIndex result = program_.born(2);
  program_.op({old}, {result}, {}, /*workspace_units=*/1);
  program_.op({result}, {old});
  const Schedule schedule = program_.schedule();
  EXPECT_EQ(schedule.index().ops_until_use(old, 1), 0);
  EXPECT_EQ(schedule.index().allocated_bytes(0), 3 * kUnitBytes);
  EXPECT_EQ(schedule.index().allocated_bytes(1), 0);
}

TEST_F(ScheduleTest, KnowsWhenATensorNextLeavesTheDevice) {
  const trace::TensorIndex moved = persistent();
  const trace::TensorIndex kept = persistent();
  const trace::TensorIndex born = program_.born(1);
  program_.op({moved, kept}, {born});
  program_.op({born}, {}, {born});
  program_.idle_ops(4);
  program_.drop(moved, 4);
  program_.offload(moved, 1);
  const Schedule schedule = program_.schedule();
  EXPECT_EQ(schedule.departure_after(moved, 0), 1);
  EXPECT_EQ(schedule.departure_after(moved, 1), 4);
  EXPECT_EQ(schedule.departure_after(moved, 4), 7) << "in the next iteration";
  EXPECT_EQ(schedule.departure_after(kept, 0), std::nullopt);
  EXPECT_EQ(schedule.departure_after(born, 0), 2);
}

TEST_F(ScheduleTest, CountsTheMemoryThatTheHeapHasForIt) {
  if (testing::kIsSanitized) GTEST_SKIP() << "not applicable: the heap is another one";
  for (int i = 0; i < 10'000; ++i) {
    const trace::TensorIndex result = program_.born(1);
    program_.op({persistent()}, {result}, {result});
    program_.profile.trace.tensors.back().name = "layers.0.self_attn.q_proj.weight";
  }
  const auto heap_bytes = [] {
    const struct mallinfo2 heap = mallinfo2();
    return static_cast<double>(heap.uordblks + heap.hblkhd);
  };
  const double before_bytes = heap_bytes();
  const Schedule schedule = program_.schedule();
  const double taken_bytes = heap_bytes() - before_bytes;
  EXPECT_NEAR(static_cast<double>(schedule.memory_bytes()), taken_bytes, 0.2 * taken_bytes);
}

}  // namespace
}  // namespace teraio::iteration
