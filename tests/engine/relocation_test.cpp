// Tensors move on the device where its free memory is scattered. That of SteppedDevice
// never is.
#include <gtest/gtest.h>

#include "engine/fixture/engine_session.h"
#include "testing/no_silent_skips.h"

namespace teraio::engine {
namespace {

using testing::EngineSession;
using testing::kUnitBytes;
using testing::PlannedProgram;
using testing::Tensors;

// In units. A GPU has more memory than a smaller budget tells.
constexpr int64_t kOne = 40;

class RelocationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (session_.device().name() == "stepped")
      GTEST_SKIP() << testing::kNotApplicable << "its free memory is never scattered";
    session_.tensor(kOne);  // at the lowest address
  }
  // Every other one of those that fill the device.
  Tensors with_holes(int count) {
    Tensors stay;
    Tensors leave;
    for (int i = 0; i < count; ++i) (i % 2 == 0 ? leave : stay).push_back(session_.tensor(kOne));
    for (LiveTensor* tensor : leave) session_.die(tensor);
    return stay;
  }

  EngineSession session_{{.budget_units = 16 * kOne, .ssd_units = 64 * kOne}};
};

TEST_F(RelocationTest, PiecesBecomeOneAndEveryByteIsKept) {
  const Tensors tensors = with_holes(15);
  ASSERT_TRUE(session_.write({session_.born(8 * kOne)}).ok());
  EXPECT_GT(session_.counters().relocations, 0);
  EXPECT_EQ(session_.counters().relocated_bytes,
            session_.counters().relocations * kOne * kUnitBytes);
  EXPECT_EQ(session_.counters().on_demand_offloads, 0);
  EXPECT_TRUE(session_.use(tensors).ok());
  EXPECT_TRUE(session_.write(tensors).ok());
}

// They never leave, and would be in the way for good.
TEST_F(RelocationTest, TensorsTooSmallToLeaveMove) {
  Tensors large;
  std::vector<LiveTensor*> small;
  for (int i = 0; i < 14; ++i) {
    large.push_back(session_.tensor(kOne));
    small.push_back(*session_.try_born(kUnitBytes / 2));
    ASSERT_TRUE(session_.use({small.back()}).ok());
  }
  for (LiveTensor* tensor : large) session_.die(tensor);
  session_.born(14 * kOne);
  EXPECT_GE(session_.counters().relocations, 13);
  EXPECT_TRUE(session_.use(small).ok());
}

TEST_F(RelocationTest, WhatAnOpUsesStaysAndOthersLeave) {
  const Tensors tensors = with_holes(15);
  ASSERT_TRUE(session_.begin(iteration::kLost, tensors).ok());
  std::vector<std::byte*> addresses;
  for (const LiveTensor* tensor : tensors) addresses.push_back(tensor->memory);
  LiveTensor* large = session_.born(3 * kOne);
  for (size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ(tensors[i]->memory, addresses[i]);
  session_.end(iteration::kLost, tensors);
  EXPECT_TRUE(session_.use({large}).ok());
}

//   |#|P|####|####|.|P|####|.|####|.|####|.|    P: operands. No block of two fits into a hole.
TEST_F(RelocationTest, WhereTheMovesNeedALittleMoreOnlyThatLeaves) {
  Tensors operands;
  Tensors leave;
  const auto hole = [&] { leave.push_back(session_.tensor(kOne)); };
  operands.push_back(session_.tensor(kOne));
  session_.tensor(2 * kOne);
  session_.tensor(2 * kOne);
  hole();
  operands.push_back(session_.tensor(kOne));
  for (int i = 0; i < 3; ++i) {
    session_.tensor(2 * kOne);
    hole();
  }
  for (LiveTensor* tensor : leave) session_.die(tensor);
  ASSERT_TRUE(session_.begin(iteration::kLost, operands).ok());
  session_.born(4 * kOne);
  session_.end(iteration::kLost, operands);
  EXPECT_EQ(session_.counters().on_demand_offloads, 2) << "#, which does not help, and one of two";
  EXPECT_GT(session_.counters().relocations, 0);
}

TEST_F(RelocationTest, NothingMovesWhereAnOwnerKeepsItsTensor) {
  const Tensors tensors = with_holes(15);
  for (LiveTensor* tensor : tensors) session_.swap().keep(*tensor);
  session_.born(2 * kOne);
  EXPECT_EQ(session_.counters().relocations, 0);
  for (LiveTensor* tensor : tensors) session_.swap().keep(*tensor, false);
}

TEST_F(RelocationTest, WhereOneOwnerKeepsItsTensorTheOthersAreWhole) {
  for (size_t i = 0; i < 7; ++i) {
    const Tensors tensors = with_holes(15);
    session_.swap().keep(*tensors[i]);
    LiveTensor* large = session_.born(8 * kOne);
    session_.swap().keep(*tensors[i], false);
    session_.die(large);
    EXPECT_TRUE(session_.use(tensors).ok());
    for (LiveTensor* tensor : tensors) session_.die(tensor);
  }
}

TEST_F(RelocationTest, ATensorWithACopyOnATierIsGuardedWhereItIsNow) {
  session_.send_everything_away();
  const Tensors tensors = with_holes(15);
  session_.send_everything_away();
  ASSERT_TRUE(session_.use(tensors).ok());
  for (LiveTensor* tensor : tensors) EXPECT_NE(tensor->valid_copy(), nullptr);
  session_.born(8 * kOne);
  EXPECT_TRUE(session_.use(tensors).ok());  // checks what is guarded
}

// A move is compute, which another stream would not wait for: the moves go on when it is given
// work.
// Which stream goes first is chance.
TEST_F(RelocationTest, AnotherStreamWaitsForTheMove) {
  testing::TestDevice& compute = session_.compute();
  void* stream = compute.other_stream();
  for (int round = 1; round <= 20; ++round) {
    const Tensors tensors = with_holes(15);
    const Result<LiveTensor*> large = session_.engine().allocate(8 * kOne * kUnitBytes);
    ASSERT_TRUE(large.ok());
    ASSERT_GE(session_.counters().relocations, round);
    for (LiveTensor* tensor : tensors) {
      const Use use{tensor, true};
      ASSERT_TRUE(session_.engine().order_stream(stream, std::span(&use, 1)).ok());
      compute.write_elsewhere(tensor->memory, kUnitBytes, round, stream,
                              testing::TestDevice::Begins::kAtOnce);
    }
    ASSERT_TRUE(session_.device().order_after(session_.device().record_on(stream)).ok());
    for (LiveTensor* tensor : tensors) {
      compute.expect(tensor->memory, kUnitBytes, round, tensor->id);
      session_.die(tensor);
    }
    session_.engine().release(*large);
  }
}

TEST_F(RelocationTest, WhatHasMovedLeavesAndReturns) {
  const Tensors tensors = with_holes(15);
  LiveTensor* large = session_.born(8 * kOne);
  ASSERT_GT(session_.counters().relocations, 0);
  ASSERT_TRUE(session_.write({large}).ok());
  session_.send_everything_away();
  EXPECT_TRUE(session_.use(tensors).ok());
  EXPECT_TRUE(session_.use({large}).ok());
}

TEST_F(RelocationTest, MovesFreeMemoryForAPlannedReturn) {
  LiveTensor* large = session_.tensor(7 * kOne);
  session_.send_everything_away();
  const Tensors tensors = with_holes(15);
  PlannedProgram program;
  const trace::TensorIndex index = program.persistent(*large);
  program.idle_ops(4);
  program.op({index});
  program.prefetch(index, 1, 4);
  session_.engine().plan().follow(program.shared_schedule());
  const EngineCounters before = session_.counters();
  ASSERT_TRUE(session_.op(0, {}).ok());
  ASSERT_TRUE(session_.op(1, {}).ok());
  EXPECT_EQ(large->residency, Residency::kLoading);
  EXPECT_GT(session_.counters().relocations, before.relocations);
  EXPECT_EQ(session_.counters().on_demand_offloads, before.on_demand_offloads);
  session_.let_all_end();
  EXPECT_TRUE(session_.use({large}).ok());
  EXPECT_TRUE(session_.use(tensors).ok());
}

// --- Lifetimes ----------------------------------------------------------------------------------

class TenantTest : public ::testing::Test {
 protected:
  PlannedMoves& plan() { return session_.engine().plan(); }

  EngineSession session_{{.budget_units = 16}};
  PlannedProgram program_;
};

TEST_F(TenantTest, LeavesAtItsNextDepartureCountedInIterations) {
  LiveTensor* tensor = session_.tensor();
  const trace::TensorIndex index = program_.persistent(*tensor);
  program_.idle_ops(4);
  program_.offload(index, 2);
  program_.prefetch(index, 3, 3);
  plan().follow(program_.shared_schedule());
  ASSERT_TRUE(session_.op(0, {}).ok());
  const double leaves_at = plan().tenant(*tensor).leaves_at;
  ASSERT_TRUE(session_.op(3, {}).ok());
  EXPECT_EQ(plan().tenant(*tensor).leaves_at, leaves_at + 1) << "in the next iteration";
  plan().start_iteration();
  EXPECT_EQ(plan().tenant(*tensor).leaves_at, leaves_at + 1);
}

TEST_F(TenantTest, ATensorThatNothingTakesAwayStays) {
  LiveTensor* tensor = session_.tensor();
  program_.persistent(*tensor);
  program_.idle_ops(2);
  plan().follow(program_.shared_schedule());
  EXPECT_EQ(plan().tenant(*tensor).leaves_at, device::kNever);
}

TEST_F(TenantTest, BirthsAreKnownByTheirSizes) {
  const trace::TensorIndex brief = program_.born(1);
  const trace::TensorIndex lasting = program_.born(2);
  program_.op({}, {brief, lasting});
  program_.op({brief}, {}, {brief});
  program_.idle_ops(1);
  program_.op({lasting}, {}, {lasting});
  plan().follow(program_.shared_schedule());
  ASSERT_TRUE(session_.begin(0, {}).ok());
  LiveTensor tensor;
  const double start = plan().tenant_at_birth(tensor, 2 * kUnitBytes).leaves_at - 1;
  EXPECT_EQ(plan().tenant_at_birth(tensor, kUnitBytes).leaves_at, start + .5);
  EXPECT_EQ(plan().tenant_at_birth(tensor, kUnitBytes).leaves_at, device::kSoon)
      << "gone with the op";
  session_.end(0, {});
}

TEST_F(TenantTest, WithoutAPlaceInTheProgramNothingIsKnown) {
  LiveTensor* tensor = session_.tensor();
  EXPECT_EQ(plan().tenant(*tensor).leaves_at, device::kSoon);
}

}  // namespace
}  // namespace teraio::engine
