// Transfers that fail: nothing is lost, and whoever needs the bytes is told.
#include <gtest/gtest.h>

#include <string>

#include "engine/fixture/engine_session.h"

namespace teraio::engine {
namespace {

using testing::EngineSession;
using testing::kUnitBytes;
using testing::Tensors;

TEST(FailedWrite, TheTensorStays) {
  EngineSession session({.budget_units = 2});
  LiveTensor* a = session.tensor();
  session.ssd().fail(io::Direction::kWrite, "worn out");
  const Status status = session.engine().evict_everything();
  EXPECT_EQ(status.code(), ErrorCode::kIoError);
  EXPECT_EQ(a->residency, Residency::kResident);
  EXPECT_EQ(a->valid_copy(), nullptr);
  EXPECT_TRUE(session.use({a}).ok());
  EXPECT_EQ(session.counters().failed_transfers, 1);
}

TEST(FailedWrite, IsTriedAgainElsewhere) {
  EngineSession session({.budget_units = 2});
  const Tensors t = session.tensors(2);
  session.ssd().fail(io::Direction::kWrite, "worn out");
  EXPECT_FALSE(session.engine().evict_everything().ok());
  session.ssd().heal();
  EXPECT_TRUE(session.engine().evict_everything().ok());
  EXPECT_EQ(session.ssd().counters().bytes_written, 2 * kUnitBytes);
  EXPECT_TRUE(session.use(t).ok());
}

TEST(FailedWrite, TwiceInARowFencesTheTierForWrites) {
  EngineSession session({.budget_units = 2});
  const Tensors t = session.tensors(2);
  session.ssd().fail(io::Direction::kWrite, "worn out");
  EXPECT_FALSE(session.engine().evict_everything().ok());
  EXPECT_FALSE(session.engine().evict_everything().ok());
  session.ssd().heal();
  (void)session.engine().evict_everything();
  EXPECT_EQ(session.ssd().counters().bytes_written, 0);
  EXPECT_EQ(t[0]->residency, Residency::kResident);
}

TEST(FailedWrite, WhatTheTierHasCanStillBeRead) {
  EngineSession session({.budget_units = 2});
  LiveTensor* a = session.tensor();
  session.send_everything_away();
  LiveTensor* b = session.tensor();
  session.ssd().fail(io::Direction::kWrite, "worn out");
  EXPECT_FALSE(session.engine().evict_everything().ok());
  EXPECT_TRUE(session.use({a, b}).ok());
}

TEST(FailedWrite, AnotherTierTakesOver) {
  EngineSession session({.budget_units = 2, .host_units = 10});
  const Tensors t = session.tensors(2);
  session.host().fail(io::Direction::kWrite, "worn out");
  EXPECT_TRUE(session.try_born(2 * kUnitBytes).ok());
  EXPECT_EQ(session.ssd().counters().bytes_written, 2 * kUnitBytes);
}

TEST(FailedWrite, TheMessageForAMissingByteNamesTheFailure) {
  EngineSession session({.budget_units = 2});
  session.tensors(2);
  session.ssd().fail(io::Direction::kWrite, "worn out");
  const Status status = session.try_born(kUnitBytes).status();
  EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
  EXPECT_NE(status.message().find("worn out"), std::string::npos) << status.message();
}

TEST(FailedWrite, CleanTensorsStillLeaveByADrop) {
  EngineSession session({.budget_units = 2});
  LiveTensor* clean = session.tensor();
  session.send_everything_away();
  LiveTensor* dirty = session.tensor();
  ASSERT_TRUE(session.use({clean}).ok());
  session.ssd().fail(io::Direction::kWrite, "worn out");
  EXPECT_TRUE(session.try_born(kUnitBytes).ok());
  EXPECT_EQ(clean->residency, Residency::kOffloaded);
  EXPECT_EQ(dirty->residency, Residency::kResident);
}

TEST(FailedWrite, OfATensorThatHasDiedIsNoTrouble) {
  EngineSession session({.budget_units = 2});
  LiveTensor* a = session.tensor();
  testing::PlannedProgram program;
  const trace::TensorIndex index = program.persistent(*a);
  program.idle_ops(2);
  program.offload(index, 0);
  session.engine().plan().follow(program.shared_schedule());
  ASSERT_TRUE(session.op(0, {}).ok());
  session.die(a);
  session.ssd().can_cancel = false;
  session.ssd().fail(io::Direction::kWrite, "worn out");
  session.let_all_end();
  EXPECT_EQ(session.device().usage().allocated_bytes, 0);
  EXPECT_EQ(session.ssd().counters().reserved_bytes, 0);
}

TEST(FailedRead, TheErrorNamesTheTensorAndTheReason) {
  EngineSession session({.budget_units = 2});
  LiveTensor* a = session.tensor();
  session.send_everything_away();
  session.ssd().fail(io::Direction::kRead, "cable");
  const Status status = session.use({a});
  EXPECT_EQ(status.code(), ErrorCode::kIoError);
  EXPECT_NE(status.message().find("tensor " + std::to_string(a->id)), std::string::npos);
  EXPECT_NE(status.message().find(format_size(kUnitBytes)), std::string::npos);
  EXPECT_NE(status.message().find("cable"), std::string::npos) << status.message();
  session.ssd().heal();
}

TEST(FailedRead, ALaterTryWorks) {
  EngineSession session({.budget_units = 2});
  LiveTensor* a = session.tensor();
  session.send_everything_away();
  session.ssd().fail(io::Direction::kRead, "cable");
  EXPECT_FALSE(session.use({a}).ok());
  EXPECT_EQ(session.device().usage().allocated_bytes, 0) << "its memory is given back";
  EXPECT_EQ(session.engine().amounts().offloaded_bytes, kUnitBytes);
  session.ssd().heal();
  EXPECT_TRUE(session.use({a}).ok());
  EXPECT_EQ(session.engine().amounts().offloaded_bytes, 0);
}

TEST(FailedRead, NothingStaysPinned) {
  EngineSession session({.budget_units = 2});
  const Tensors t = session.tensors(2);
  session.send_everything_away();
  ASSERT_TRUE(session.use({t[0]}).ok());
  session.ssd().fail(io::Direction::kRead, "cable");
  EXPECT_FALSE(session.use(t).ok());
  EXPECT_EQ(t[0]->uses.pin_count, 0u);
  EXPECT_EQ(t[1]->uses.pin_count, 0u);
  session.ssd().heal();
  EXPECT_TRUE(session.try_born(2 * kUnitBytes).ok());
}

TEST(FailedRead, DoesNotFenceWrites) {
  EngineSession session({.budget_units = 2});
  LiveTensor* a = session.tensor();
  session.send_everything_away();
  session.ssd().fail(io::Direction::kRead, "cable");
  EXPECT_FALSE(session.use({a}).ok());
  session.ssd().heal();
  LiveTensor* b = session.tensor();
  session.send_everything_away();
  EXPECT_EQ(b->residency, Residency::kOffloaded);
}

TEST(FailedRead, WhatCanBeReadComesBackAtTheEnd) {
  EngineSession session({.budget_units = 4});
  const Tensors t = session.tensors(3);
  session.send_everything_away();
  const storage::Extent broken = t[1]->copy(plan::Tier::kSsd).extent;
  session.ssd().fate = [broken](const storage::Transfer& transfer) {
    return transfer.extent == broken ? Status(ErrorCode::kIoError, "cable") : Status();
  };
  const Status status = session.engine().restore_all();
  EXPECT_NE(status.message().find("1 of 3 tensors did not come back: " + std::to_string(t[1]->id)),
            std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("cable"), std::string::npos) << status.message();
  for (LiveTensor* other : {t[0], t[2]}) {
    EXPECT_EQ(other->residency, Residency::kResident);
    session.expect_bytes(*other);
    EXPECT_EQ(other->valid_copy(), nullptr);
  }
  session.ssd().heal();
  EXPECT_TRUE(session.use(t).ok());
  EXPECT_TRUE(session.engine().restore_all().ok());
}

TEST(FailedRead, OfATensorThatHasDiedIsNoTrouble) {
  EngineSession session({.budget_units = 2});
  const Tensors t = session.tensors(2);
  session.send_everything_away();
  const storage::Extent broken = t[0]->copy(plan::Tier::kSsd).extent;
  session.ssd().fate = [broken](const storage::Transfer& transfer) {
    return transfer.extent == broken ? Status(ErrorCode::kIoError, "cable") : Status();
  };
  EXPECT_FALSE(session.use(t).ok());  // the second is still on its way, or has come
  session.die(t[1]);
  session.die(t[0]);
  session.let_all_end();
  EXPECT_EQ(session.device().usage().allocated_bytes, 0);
  EXPECT_EQ(session.ssd().counters().reserved_bytes, 0);
}

TEST(FailedRead, AnOpWithoutRoomForItsInputsFailsAndLosesNothing) {
  EngineSession session({.budget_units = 2});
  const Tensors t = session.tensors(2);
  session.send_everything_away();
  LiveTensor* fresh = session.born();
  const Status status = session.use(t);
  EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
  session.die(fresh);
  EXPECT_TRUE(session.use(t).ok());
}

}  // namespace
}  // namespace teraio::engine
