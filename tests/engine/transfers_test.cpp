// The states of a tensor, and what may happen to it while a transfer is under way.
#include <gtest/gtest.h>

#include "engine/fixture/engine_session.h"
#include "testing/no_silent_skips.h"

namespace teraio::engine {
namespace {

using testing::EngineSession;
using testing::kUnitBytes;
using testing::PlannedProgram;
using testing::Tensors;

// One tensor whose offload is planned at op 1, and whose next use is op 3.
class OffloadTest : public ::testing::Test {
 protected:
  OffloadTest() : a_(session_.tensor()) {
    const trace::TensorIndex a = program_.persistent(*a_);
    program_.op({a});
    program_.idle_ops(2);
    program_.op({a});
    program_.idle_ops(2);
    program_.offload(a, 1);
  }

  void run_until_offloading() {
    session_.engine().plan().follow(program_.shared_schedule());
    ASSERT_TRUE(session_.op(0, {a_}).ok());
    ASSERT_TRUE(session_.op(1, {}).ok());
    ASSERT_EQ(a_->residency, Residency::kOffloading);
  }
  void run_until_out() {
    run_until_offloading();
    session_.ssd().end_all();
    ASSERT_TRUE(session_.op(2, {}).ok());
    ASSERT_EQ(a_->residency, Residency::kOffloaded);
  }
  // It goes away and comes back with its bytes.
  void expect_round_trip() {
    session_.send_everything_away();
    ASSERT_EQ(a_->residency, Residency::kOffloaded);
    EXPECT_TRUE(session_.use({a_}).ok());
  }

  EngineSession session_{{.budget_units = 4}};
  PlannedProgram program_;
  LiveTensor* a_;
};

// Its memory is not free when the write ends.
TEST_F(OffloadTest, IsUnmovableWhenItIsHeldMeanwhile) {
  run_until_offloading();
  EXPECT_EQ(session_.engine().unmovable_bytes(), 0);
  ASSERT_TRUE(session_.engine().pin(a_).ok());
  EXPECT_EQ(a_->residency, Residency::kOffloading);
  EXPECT_EQ(session_.engine().unmovable_bytes(), kUnitBytes);
  session_.engine().unpin(a_);
  EXPECT_EQ(session_.engine().unmovable_bytes(), 0);
}

TEST_F(OffloadTest, GoesThroughItsStates) {
  EXPECT_EQ(a_->residency, Residency::kResident);
  run_until_offloading();
  EXPECT_NE(a_->memory, nullptr) << "the bytes are still here";
  session_.ssd().end_all();
  EXPECT_EQ(a_->residency, Residency::kOffloading) << "states change only inside calls";
  ASSERT_TRUE(session_.op(2, {}).ok());
  EXPECT_EQ(a_->residency, Residency::kOffloaded);
  EXPECT_EQ(a_->memory, nullptr);
  EXPECT_EQ(session_.device().usage().allocated_bytes, 0);
  ASSERT_TRUE(session_.op(3, {a_}).ok());
  EXPECT_EQ(a_->residency, Residency::kResident);
  EXPECT_EQ(session_.counters().planned_offloads, 1);
  EXPECT_EQ(session_.counters().urgent_reads, 1);
  EXPECT_GT(session_.counters().stall_read_ns, 0);
}

// A GPU's program is ahead of the copy that brings the tensor.
TEST_F(OffloadTest, LeavesAsPlannedWhenItsCopyHasEnded) {
  PlannedProgram program;
  const trace::TensorIndex a = program.persistent(*a_);
  program.op({a});
  program.idle_ops(2);
  program.op({a});
  program.idle_ops(3);
  program.offload(a, 4);
  session_.send_everything_away();
  session_.engine().plan().follow(program.shared_schedule());
  session_.ssd().can_cancel = false;
  ASSERT_TRUE(session_.op(3, {a_}).ok());
  const bool is_behind = a_->transfer.is_copy_pending;
  ASSERT_TRUE(session_.op(4, {}).ok());
  if (is_behind) {
    EXPECT_EQ(a_->residency, Residency::kResident);
    EXPECT_EQ(session_.counters().planned_offloads, 0);
  }
  session_.ssd().end_all();
  ASSERT_TRUE(session_.op(5, {}).ok());
  session_.ssd().end_all();
  ASSERT_TRUE(session_.op(6, {}).ok());
  EXPECT_EQ(a_->residency, Residency::kOffloaded);
  EXPECT_EQ(session_.counters().skipped_migrations, 0);
}

// Outside of ops, nothing touches bytes that a tier has too: a change would be lost.
TEST_F(OffloadTest, IsProtectedFromTheWriteOnAndWhileACopyIsValid) {
  const testing::CheckingSwap& swap = session_.swap();
  EXPECT_FALSE(swap.is_protected(*a_)) << "no tier has its bytes";
  run_until_offloading();
  EXPECT_TRUE(swap.is_protected(*a_));
  session_.ssd().end_all();
  ASSERT_TRUE(session_.op(2, {}).ok());
  ASSERT_TRUE(session_.begin(3, {a_}).ok());
  EXPECT_FALSE(swap.is_protected(*a_)) << "an op uses it";
  session_.end(3, {a_});
  EXPECT_TRUE(swap.is_protected(*a_)) << "its copy is valid";
  ASSERT_TRUE(session_.write({a_}).ok());
  EXPECT_FALSE(swap.is_protected(*a_)) << "its copy is stale";
}

TEST_F(OffloadTest, IsNotProtectedWhilePinned) {
  run_until_out();
  ASSERT_TRUE(session_.engine().pin(a_).ok());
  EXPECT_FALSE(session_.swap().is_protected(*a_));
  session_.engine().unpin(a_);
  EXPECT_TRUE(session_.swap().is_protected(*a_));
}

TEST_F(OffloadTest, NothingIsProtectedAtTheEnd) {
  run_until_out();
  ASSERT_TRUE(session_.use({a_}).ok());
  EXPECT_TRUE(session_.swap().is_protected(*a_));
  ASSERT_TRUE(session_.engine().restore_all().ok());
  EXPECT_FALSE(session_.swap().is_protected(*a_));
}

TEST_F(OffloadTest, AUseDuringTheWriteNeedsNoWait) {
  run_until_offloading();
  ASSERT_TRUE(session_.op(3, {a_}).ok());
  EXPECT_EQ(session_.counters().stall_ns(), 0);
  session_.let_all_end();
  EXPECT_EQ(a_->residency, Residency::kOffloaded) << "it was not in use when the write ended";
}

TEST_F(OffloadTest, AWriteWhoseMemoryIsWaitedForBecomesUrgent) {
  run_until_offloading();
  for (int i = 0; i < 3; ++i) session_.tensor();
  EXPECT_EQ(session_.ssd().expedite_count, 0);
  session_.tensor();
  EXPECT_EQ(session_.ssd().expedite_count, 1);
  EXPECT_EQ(a_->residency, Residency::kOffloaded);
}

TEST_F(OffloadTest, StaysWhenTheWriteEndsDuringAUse) {
  run_until_offloading();
  ASSERT_TRUE(session_.begin(3, {a_}).ok());
  session_.let_all_end();
  EXPECT_EQ(a_->residency, Residency::kResident);
  EXPECT_NE(a_->valid_copy(), nullptr) << "the copy is good all the same";
  session_.end(3, {a_});
}

TEST_F(OffloadTest, AWriteMakesTheCopyUnderWayStale) {
  session_.ssd().can_cancel = false;
  run_until_offloading();
  ASSERT_TRUE(session_.op(3, {}, {a_}).ok());
  session_.let_all_end();
  EXPECT_EQ(a_->residency, Residency::kResident) << "the tier has half of the old bytes";
  EXPECT_EQ(a_->valid_copy(), nullptr);
  expect_round_trip();
}

TEST_F(OffloadTest, AWriteWithdrawsATransferThatHasNotBegun) {
  run_until_offloading();
  ASSERT_TRUE(session_.op(3, {}, {a_}).ok());
  session_.let_all_end();
  EXPECT_EQ(session_.ssd().counters().bytes_written, 0);
  EXPECT_EQ(a_->residency, Residency::kResident);
  EXPECT_EQ(session_.counters().failed_transfers, 0) << "withdrawn is not failed";
  expect_round_trip();
}

TEST_F(OffloadTest, AHolderThatWritesMakesTheCopyUnderWayStale) {
  session_.ssd().can_cancel = false;
  run_until_offloading();
  ASSERT_TRUE(session_.engine().pin(a_).ok());
  EXPECT_TRUE(session_.engine().mark_written(a_).ok());
  session_.write_bytes(*a_);
  session_.let_all_end();
  session_.engine().unpin(a_);
  EXPECT_EQ(a_->valid_copy(), nullptr);
  expect_round_trip();
}

TEST_F(OffloadTest, DiesDuringTheWrite) {
  for (const bool can_cancel : {true, false}) {
    session_.ssd().can_cancel = can_cancel;
    run_until_offloading();
    session_.die(a_);
    EXPECT_EQ(session_.device().usage().allocated_bytes, kUnitBytes) << "the write still reads it";
    session_.let_all_end();
    EXPECT_EQ(session_.device().usage().allocated_bytes, 0);
    EXPECT_EQ(session_.ssd().counters().reserved_bytes, 0);
    a_ = session_.tensor();
    program_.profile.trace.tensors[0].id = static_cast<int64_t>(a_->id);
  }
}

TEST_F(OffloadTest, DiesDuringTheRead) {
  program_.prefetch(0, 2, 3);
  run_until_offloading();
  session_.ssd().end_all();
  ASSERT_TRUE(session_.op(2, {}).ok());
  ASSERT_EQ(a_->residency, Residency::kLoading);
  session_.die(a_);
  EXPECT_EQ(session_.device().usage().allocated_bytes, kUnitBytes) << "the read still fills it";
  session_.let_all_end();
  EXPECT_EQ(session_.device().usage().allocated_bytes, 0);
  EXPECT_EQ(session_.ssd().counters().reserved_bytes, 0);
  EXPECT_EQ(session_.engine().amounts().offloaded_bytes, 0);
}

TEST_F(OffloadTest, DiesWhileAway) {
  run_until_out();
  session_.die(a_);
  EXPECT_EQ(session_.ssd().counters().reserved_bytes, 0);
  EXPECT_EQ(session_.ssd().counters().bytes_read, 0);
  EXPECT_EQ(session_.engine().amounts().offloaded_bytes, 0);
}

TEST_F(OffloadTest, DiesWhileItsPrefetchIsDue) {
  program_.prefetch(0, 2, 3);
  run_until_offloading();
  session_.ssd().end_all();
  session_.device().set_budget_bytes(0);
  ASSERT_TRUE(session_.op(2, {}).ok());
  ASSERT_EQ(a_->residency, Residency::kOffloaded);
  session_.die(a_);
  session_.device().set_budget_bytes(4 * kUnitBytes);
  EXPECT_TRUE(session_.op(3, {}).ok());
  EXPECT_EQ(session_.counters().planned_prefetches, 0);
}

TEST_F(OffloadTest, TheExtentIsUsedAgain) {
  run_until_out();
  const storage::Extent extent = a_->copy(plan::Tier::kSsd).extent;
  ASSERT_TRUE(session_.write({a_}).ok());
  EXPECT_EQ(a_->copy(plan::Tier::kSsd).extent, extent) << "kept for the next time";
  session_.send_everything_away();
  EXPECT_EQ(a_->copy(plan::Tier::kSsd).extent, extent);
  EXPECT_EQ(session_.ssd().counters().reserved_peak_bytes, kUnitBytes);
}

TEST_F(OffloadTest, APlannedOffloadOfACleanTensorWritesNothing) {
  run_until_out();
  ASSERT_TRUE(session_.op(3, {a_}).ok());
  session_.engine().plan().start_iteration();
  ASSERT_TRUE(session_.op(0, {a_}).ok());
  ASSERT_TRUE(session_.op(1, {}).ok());
  EXPECT_EQ(a_->residency, Residency::kOffloaded);
  EXPECT_EQ(session_.counters().planned_drops, 1);
  EXPECT_EQ(session_.ssd().counters().bytes_written, kUnitBytes);
}

// In host memory after the update that wrote it, on the drives after its next use: in each
// iteration, the host tier is free for others from then on.
TEST(Offload, APlanChangesTheTierAtAUse) {
  EngineSession session({.budget_units = 4, .host_units = 1});
  LiveTensor* a = session.tensor();
  PlannedProgram program;
  const trace::TensorIndex known = program.persistent(*a);
  program.op({}, {known});
  program.idle_ops(1);
  program.op({known});
  program.idle_ops(1);
  program.op({known});
  program.offload(known, 1, plan::Tier::kHost);
  program.offload(known, 3, plan::Tier::kSsd);
  session.engine().plan().follow(program.shared_schedule());
  for (int64_t iteration = 1; iteration <= 2; ++iteration) {
    ASSERT_TRUE(session.op(0, {}, {a}).ok());
    ASSERT_TRUE(session.op(1, {}).ok());
    session.let_all_end();
    EXPECT_TRUE(a->copy(plan::Tier::kHost).is_valid);
    ASSERT_TRUE(session.op(2, {a}).ok());
    ASSERT_TRUE(session.op(3, {}).ok());
    EXPECT_EQ(session.host().counters().reserved_bytes, 0);
    session.let_all_end();
    EXPECT_TRUE(a->copy(plan::Tier::kSsd).is_valid);
    ASSERT_TRUE(session.op(4, {a}).ok());
    EXPECT_EQ(session.ssd().counters().bytes_written, iteration * kUnitBytes);
    session.engine().plan().start_iteration();
  }
}

TEST_F(OffloadTest, APlannedDropWithoutACopyIsAWrite) {
  program_.plan.migrations.clear();
  program_.drop(0, 1);
  run_until_offloading();
  session_.let_all_end();
  EXPECT_EQ(a_->residency, Residency::kOffloaded);
  EXPECT_TRUE(session_.use({a_}).ok());
}

TEST_F(OffloadTest, APlannedOffloadOfWhatIsHeldIsSkipped) {
  session_.engine().plan().follow(program_.shared_schedule());
  ASSERT_TRUE(session_.engine().pin(a_).ok());
  ASSERT_TRUE(session_.op(1, {}).ok());
  EXPECT_EQ(a_->residency, Residency::kResident);
  EXPECT_EQ(session_.counters().skipped_migrations, 1);
  session_.engine().unpin(a_);
}

TEST_F(OffloadTest, MigrationsOfOpsThatWereMissedAreIssuedLate) {
  session_.engine().plan().follow(program_.shared_schedule());
  ASSERT_TRUE(session_.use({a_}).ok());  // lost
  ASSERT_TRUE(session_.op(2, {}).ok());  // found again
  EXPECT_EQ(a_->residency, Residency::kOffloading);
  ASSERT_TRUE(session_.op(2, {}).ok());
  EXPECT_EQ(session_.counters().planned_offloads, 1) << "and only once";
}

TEST_F(OffloadTest, NothingPlannedIsIssuedWhileLost) {
  session_.engine().plan().follow(program_.shared_schedule());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(session_.use({a_}).ok());
  EXPECT_EQ(session_.counters().planned_offloads, 0);
}

TEST(Bind, ATensorBornInTheIterationIsFoundByItsPlaceInTheOp) {
  EngineSession session({.budget_units = 4});
  PlannedProgram program;
  const trace::TensorIndex born = program.born(1);
  program.op({}, {born});
  program.op({});
  program.op({born});
  program.offload(born, 1);
  session.engine().plan().follow(program.shared_schedule());
  session.engine().plan().lay_out();
  for (int iteration = 0; iteration < 3; ++iteration) {
    session.engine().plan().start_iteration();
    ASSERT_TRUE(session.begin(0, {}).ok());
    LiveTensor* activation = session.born();
    activation->birth.is_complete = true;  // its op completes it
    const Use result = {activation, true};
    session.engine().end_op(0, std::span(&result, 1), 0);
    ASSERT_TRUE(session.op(1, {}).ok());
    EXPECT_EQ(activation->residency, Residency::kOffloading);
    session.let_all_end();
    ASSERT_TRUE(session.op(2, {activation}).ok());
    session.die(activation);
  }
  EXPECT_EQ(session.counters().planned_offloads, 3);
}

TEST(Bind, MigrationsOfTensorsThatAreNotThereAreSkipped) {
  EngineSession session({.budget_units = 4});
  PlannedProgram program;
  const trace::TensorIndex born = program.born(1);
  program.op({}, {born});
  program.op({born});
  program.offload(born, 1);
  session.engine().plan().follow(program.shared_schedule());
  session.engine().plan().lay_out();
  ASSERT_TRUE(session.op(0, {}).ok());
  ASSERT_TRUE(session.op(1, {}).ok());
  EXPECT_EQ(session.counters().skipped_migrations, 1);
}

TEST(Hold, Nests) {
  EngineSession session({.budget_units = 2});
  LiveTensor* a = session.tensor();
  session.send_everything_away();
  ASSERT_TRUE(session.engine().pin(a).ok());
  session.expect_bytes(*a);
  ASSERT_TRUE(session.engine().pin(a).ok());
  session.engine().unpin(a);
  EXPECT_FALSE(session.try_born(2 * kUnitBytes).ok()) << "one hold is left";
  session.engine().unpin(a);
  EXPECT_TRUE(session.try_born(2 * kUnitBytes).ok());
}

TEST(Hold, OneTooFewIsABrokenInvariant) {
  EngineSession session({.budget_units = 2});
  LiveTensor* a = session.tensor();
  EXPECT_THROW(session.engine().unpin(a), std::logic_error);
}

TEST(Hold, AFailedHoldHoldsNothing) {
  EngineSession session({.budget_units = 2});
  LiveTensor* a = session.tensor();
  session.send_everything_away();
  session.ssd().fail(io::Direction::kRead, "worn out");
  EXPECT_FALSE(session.engine().pin(a).ok());
  EXPECT_EQ(a->uses.pin_count, 0u);
  session.ssd().heal();
}

// A tensor that is away on a tier whose reads end in copies of the device, which are under way
// before it is used. Where memory is the CPU's there are none.
class ArrivalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (session_.device().is_host_addressable())
      GTEST_SKIP() << testing::kNotApplicable << "reads end in memory of the CPU";
    session_.send_everything_away();
    session_.ssd().can_cancel = false;
  }

  EngineSession session_{{.budget_units = 4}};
  LiveTensor* a_ = session_.tensor();
};

TEST_F(ArrivalTest, ComputeWaitsForTheBytesAndTheCallerDoesNot) {
  const int64_t stall_ns = session_.counters().stall_ns();
  ASSERT_TRUE(session_.use({a_}).ok());
  EXPECT_EQ(a_->residency, Residency::kResident);
  EXPECT_EQ(session_.ssd().waiting_count(io::Direction::kRead), 1);
  EXPECT_EQ(session_.counters().stall_ns(), stall_ns);
  EXPECT_FALSE(session_.engine().can_leave(*a_)) << "the copy still fills it";
  session_.let_all_end();
  EXPECT_TRUE(session_.engine().can_leave(*a_));
}

TEST_F(ArrivalTest, ComputeIsNotHeldUpForWhatIsNeededLater) {
  PlannedProgram program;
  const trace::TensorIndex a = program.persistent(*a_);
  program.idle_ops(3);
  program.prefetch(a, 0, 2);
  session_.engine().plan().follow(program.shared_schedule());
  session_.engine().plan().lay_out();
  ASSERT_TRUE(session_.op(0, {}).ok());
  ASSERT_TRUE(session_.op(1, {}).ok());
  EXPECT_EQ(a_->residency, Residency::kLoading) << "nothing waits for it yet";
  ASSERT_TRUE(session_.op(2, {a_}).ok());
  EXPECT_EQ(a_->residency, Residency::kResident);
  EXPECT_EQ(session_.counters().late_prefetches, 0);
  session_.let_all_end();
}

TEST_F(ArrivalTest, DiesBeforeItHasArrived) {
  ASSERT_TRUE(session_.use({a_}).ok());
  session_.die(a_);
  EXPECT_EQ(session_.device().usage().allocated_bytes, kUnitBytes) << "the copy still fills it";
  session_.let_all_end();
  EXPECT_EQ(session_.device().usage().allocated_bytes, 0);
  EXPECT_EQ(session_.ssd().counters().reserved_bytes, 0);
}

TEST_F(ArrivalTest, IsWrittenBeforeItHasArrived) {
  ASSERT_TRUE(session_.write({a_}).ok());
  EXPECT_EQ(a_->valid_copy(), nullptr);
  session_.send_everything_away();
  EXPECT_EQ(a_->residency, Residency::kOffloaded);
  EXPECT_TRUE(session_.use({a_}).ok());
}

TEST_F(ArrivalTest, AFailureAfterTheUseEndsTheProgram) {
  ASSERT_TRUE(session_.use({a_}).ok());
  session_.ssd().fail(io::Direction::kRead, "cable");
  session_.ssd().end_all();
  EXPECT_EQ(session_.use({}).code(), ErrorCode::kIoError);
  const Status status = session_.use({a_});
  EXPECT_NE(status.message().find("in use when its read failed"), std::string::npos);
  EXPECT_NE(status.message().find("cable"), std::string::npos) << status.message();
}

TEST(Space, StaleCopiesGiveTheirRoomWhenTheTierIsFull) {
  EngineSession session({.budget_units = 4, .ssd_units = 1});
  LiveTensor* a = session.tensor();
  session.send_everything_away();
  ASSERT_TRUE(session.write({a}).ok());
  LiveTensor* b = session.tensor();
  ASSERT_TRUE(session.engine().pin(a).ok());
  session.send_everything_away();
  EXPECT_EQ(b->residency, Residency::kOffloaded) << "in the room of the first one's stale copy";
  EXPECT_FALSE(a->copy(plan::Tier::kSsd).extent.is_valid());
  session.engine().unpin(a);
  EXPECT_TRUE(session.use({a, b}).ok());
}

TEST(Space, AFullTierIsAnErrorWhenNothingElseWouldDo) {
  EngineSession session({.budget_units = 2, .ssd_units = 1});
  const Tensors t = session.tensors(2);
  const Status status = session.try_born(2 * kUnitBytes).status();
  EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
  EXPECT_NE(status.message().find("ssd is full"), std::string::npos) << status.message();
  EXPECT_TRUE(session.use(t).ok()) << "nothing is lost";
}

TEST(WholeState, EverythingLeavesAndComesBack) {
  EngineSession session({.budget_units = 6, .host_units = 2});
  const Tensors t = session.tensors(6);
  session.send_everything_away();
  for (const LiveTensor* tensor : t) EXPECT_EQ(tensor->residency, Residency::kOffloaded);
  EXPECT_EQ(session.device().usage().allocated_bytes, 0);
  ASSERT_TRUE(session.engine().restore_all().ok());
  for (LiveTensor* tensor : t) session.expect_bytes(*tensor);
  EXPECT_EQ(session.ssd().counters().reserved_bytes, 0) << "copies are dropped";
  EXPECT_EQ(session.host().counters().reserved_bytes, 0);
}

// A planned program that ends, and then needs more memory than the budget holds.
class EndedProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    const Tensors t = session_.tensors(2);
    PlannedProgram program;
    const trace::TensorIndex planned = program.persistent(*t[0]);
    program.idle_ops(3);
    program.offload(planned, 1);
    session_.engine().plan().follow(program.shared_schedule());
    session_.engine().plan().lay_out();
    ASSERT_EQ(session_.ssd().laid_out.size(), 1u);
  }
  void expect_no_room() {
    const Status status = session_.try_born(kUnitBytes).status();
    EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory) << status.message();
  }

  EngineSession session_{{.budget_units = 2}};
};

TEST_F(EndedProgram, AsksNoStoreThatItHasLeft) {
  session_.engine().leave_stores();
  expect_no_room();
}

TEST_F(EndedProgram, AsksNoStoreAfterADiscard) {
  session_.engine().discard_all();
  expect_no_room();
}

TEST(WholeState, EvictEverythingLeavesWhatIsInUse) {
  EngineSession session({.budget_units = 4});
  const Tensors t = session.tensors(2);
  ASSERT_TRUE(session.begin(iteration::kLost, {t[0]}).ok());
  session.send_everything_away();
  EXPECT_EQ(t[0]->residency, Residency::kResident);
  EXPECT_EQ(t[1]->residency, Residency::kOffloaded);
  session.end(iteration::kLost, {t[0]});
}

TEST(WholeState, BringingBackMoreThanTheBudgetHoldsFailsAndLosesNothing) {
  EngineSession session({.budget_units = 2});
  LiveTensor* a = session.tensor(2);
  LiveTensor* b = session.tensor(2);
  const Status status = session.engine().restore_all();
  EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory) << status.message();
  EXPECT_TRUE(session.use({a}).ok());
  EXPECT_TRUE(session.use({b}).ok());
  session.device().set_budget_bytes(4 * kUnitBytes);
  EXPECT_TRUE(session.engine().restore_all().ok());
  session.expect_bytes(*a);
  session.expect_bytes(*b);
}

}  // namespace
}  // namespace teraio::engine
