// Drives that do not answer: interrupts and the store's time limit end the waits for them, and no
// memory is used twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>

#include "engine/fixture/engine_session.h"
#include "engine/fixture/scripted_interrupt.h"
#include "runtime/fixture/runtime_session.h"

namespace teraio::runtime {
namespace {

using ::testing::AllOf;
using testing::EngineSession;
using ::testing::HasSubstr;
using testing::kUnitBytes;
using testing::RuntimeSession;
using testing::ScriptedInterrupt;
using testing::Tensors;

class HangingDrive : public ::testing::Test {
 protected:
  ~HangingDrive() override { heal(); }

  testing::ScriptedStore& ssd() { return session_.ssd(); }
  int64_t allocated_bytes() { return session_.device().usage().allocated_bytes; }
  void hang_transfers_of(const engine::LiveTensor& tensor, io::Direction direction) {
    const storage::Extent extent = tensor.copy(plan::Tier::kSsd).extent;
    ssd().hangs = [memory = tensor.memory, extent, direction](const storage::Transfer& transfer) {
      return transfer.direction == direction &&
             (direction == io::Direction::kRead ? transfer.extent == extent
                                                : transfer.memory == memory);
    };
    ssd().hanging = {"drive0 has not answered"};
  }
  void heal() {
    ssd().hangs = nullptr;
    ssd().hanging.clear();
  }
  void let_seconds_pass_while_waiting() {
    session_.clock().pass = [this] {
      session_.clock().skipped_ns += 3'000'000'000;
      ssd().end_one();
    };
  }

  ScriptedInterrupt interrupt_;
  EngineSession session_{{.budget_units = 3, .interrupt = &interrupt_}};
};

TEST_F(HangingDrive, AnInterruptEndsTheWaitForARead) {
  engine::LiveTensor* a = session_.tensor();
  session_.send_everything_away();
  hang_transfers_of(*a, io::Direction::kRead);
  interrupt_.come();
  const Status status = session_.use({a});
  EXPECT_EQ(status.code(), ErrorCode::kInterrupted);
  EXPECT_THAT(status.message(), HasSubstr("drive0 has not answered"));
  EXPECT_EQ(a->residency, engine::Residency::kLoading) << "its memory waits for the drive";
  EXPECT_EQ(a->uses.pin_count, 0u);
  EXPECT_EQ(allocated_bytes(), kUnitBytes);
  heal();
  interrupt_.ends_call();
  EXPECT_TRUE(session_.use({a}).ok());
}

TEST_F(HangingDrive, AnInterruptEndsTheWaitForMemory) {
  const Tensors t = session_.tensors(3);
  ssd().hang(io::Direction::kWrite);
  interrupt_.come();
  EXPECT_EQ(session_.try_born(kUnitBytes).status().code(), ErrorCode::kInterrupted);
  EXPECT_TRUE(session_.use(t).ok()) << "their bytes are on the device";
  heal();
  interrupt_.ends_call();
  EXPECT_TRUE(session_.try_born(kUnitBytes).ok());
}

TEST_F(HangingDrive, ATensorThatDiesAfterAnInterruptKeepsItsMemoryUntilTheDriveAnswers) {
  engine::LiveTensor* a = session_.tensor();
  session_.send_everything_away();
  ssd().can_cancel = false;
  hang_transfers_of(*a, io::Direction::kRead);
  interrupt_.come();
  EXPECT_FALSE(session_.use({a}).ok());
  session_.die(a);
  EXPECT_EQ(allocated_bytes(), kUnitBytes);
  heal();
  session_.let_all_end();
  EXPECT_EQ(allocated_bytes(), 0);
}

TEST_F(HangingDrive, AnInterruptEndsTheRestoringOfWhatADriveKeeps) {
  const Tensors t = session_.tensors(2);
  session_.send_everything_away();
  hang_transfers_of(*t[0], io::Direction::kRead);
  let_seconds_pass_while_waiting();
  interrupt_.come();
  const Status status = session_.engine().restore_all();
  EXPECT_EQ(status.code(), ErrorCode::kInterrupted);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("1 of 2 tensors did not come back: " + std::to_string(t[0]->id)),
                    HasSubstr("drive0 has not answered")));
  EXPECT_EQ(t[1]->residency, engine::Residency::kResident);
  EXPECT_TRUE(session_.engine().amounts().has_transfers());
}

TEST_F(HangingDrive, AnInterruptDoesNotEndTheRestoringWhileDrivesAnswer) {
  const Tensors t = session_.tensors(2);
  session_.send_everything_away();
  int pass_count = 0;
  session_.clock().pass = [&] {
    session_.clock().skipped_ns += 3'000'000'000;
    if (++pass_count > 1) ssd().end_one();
  };
  interrupt_.come();
  EXPECT_TRUE(session_.engine().restore_all().ok());
}

TEST_F(HangingDrive, ADiscardDoesNotWaitForIt) {
  const Tensors t = session_.tensors(2);
  session_.send_everything_away();
  hang_transfers_of(*t[0], io::Direction::kRead);
  interrupt_.come();
  EXPECT_FALSE(session_.use({t[0]}).ok());
  EXPECT_FALSE(session_.engine().discard_all()) << "the store is in use";
  EXPECT_EQ(allocated_bytes(), kUnitBytes);
}

TEST_F(HangingDrive, AfterTheTimeLimitAWriteHasFailedAndTheTensorStays) {
  const Tensors t = session_.tensors(2);
  ssd().has_time_out = true;
  hang_transfers_of(*t[0], io::Direction::kWrite);
  EXPECT_EQ(session_.engine().evict_everything().code(), ErrorCode::kIoError);
  EXPECT_EQ(t[1]->residency, engine::Residency::kOffloaded);
  EXPECT_EQ(t[0]->residency, engine::Residency::kResident);
  EXPECT_FALSE(session_.engine().can_leave(*t[0]));
  EXPECT_EQ(session_.engine().amounts().unanswered_bytes, kUnitBytes);
  EXPECT_EQ(session_.counters().failed_transfers, 1);
  EXPECT_TRUE(session_.write({t[0]}).ok()) << "the program goes on";
  EXPECT_TRUE(session_.engine().restore_all().ok());
  EXPECT_FALSE(session_.engine().leave_stores()) << "the drive reads the tensor's memory";
  heal();
  session_.let_all_end();
  EXPECT_EQ(session_.engine().amounts().unanswered_bytes, 0);
  session_.send_everything_away();
  EXPECT_EQ(t[0]->residency, engine::Residency::kOffloaded);
  EXPECT_TRUE(session_.use(t).ok());
}

TEST_F(HangingDrive, TheExtentOfAnUnansweredWriteIsNotUsedAgain) {
  const Tensors t = session_.tensors(2);
  ssd().has_time_out = true;
  hang_transfers_of(*t[0], io::Direction::kWrite);
  EXPECT_FALSE(session_.engine().evict_everything().ok());
  const storage::Extent extent = t[0]->copy(plan::Tier::kSsd).extent;
  engine::LiveTensor* other = session_.tensor();
  (void)session_.engine().evict_everything();  // after a failure stale extents are given back
  EXPECT_EQ(other->residency, engine::Residency::kOffloaded);
  EXPECT_EQ(t[0]->copy(plan::Tier::kSsd).extent, extent);
}

TEST_F(HangingDrive, ATensorGetsAnotherPlaceWhenItsOwnTakesNoWrites) {
  engine::LiveTensor* a = session_.tensor();
  session_.send_everything_away();
  ASSERT_TRUE(session_.write({a}).ok());
  const storage::Extent refused = a->copy(plan::Tier::kSsd).extent;
  ASSERT_TRUE(refused.is_valid());
  ssd().takes = [refused](const storage::Extent& extent) { return extent != refused; };
  session_.send_everything_away();
  EXPECT_NE(a->copy(plan::Tier::kSsd).extent, refused);
  EXPECT_TRUE(session_.use({a}).ok());
}

TEST_F(HangingDrive, AfterTheTimeLimitAReadIsAnErrorUntilTheDriveAnswers) {
  engine::LiveTensor* a = session_.tensor();
  session_.send_everything_away();
  ssd().has_time_out = true;
  hang_transfers_of(*a, io::Direction::kRead);
  for (int i = 0; i < 2; ++i) {
    const Status status = session_.use({a});
    EXPECT_EQ(status.code(), ErrorCode::kIoError);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("tensor " + std::to_string(a->id)),
                                        HasSubstr("drive0 does not answer")));
  }
  EXPECT_EQ(allocated_bytes(), kUnitBytes);
  EXPECT_EQ(session_.engine().amounts().unanswered_bytes, kUnitBytes);
  EXPECT_EQ(session_.counters().urgent_reads, 1) << "one request";
  heal();
  session_.let_all_end();
  EXPECT_EQ(allocated_bytes(), 0) << "late bytes are discarded";
  EXPECT_TRUE(session_.use({a}).ok());
}

TEST_F(HangingDrive, ATensorThatDiesUnansweredKeepsItsMemoryUntilTheDriveAnswers) {
  const Tensors t = session_.tensors(2);
  ssd().has_time_out = true;
  hang_transfers_of(*t[0], io::Direction::kWrite);
  EXPECT_FALSE(session_.engine().evict_everything().ok());
  session_.die(t[0]);
  EXPECT_EQ(allocated_bytes(), kUnitBytes);
  EXPECT_TRUE(session_.use({t[1]}).ok());
  heal();
  session_.let_all_end();
  EXPECT_EQ(session_.engine().amounts().unanswered_bytes, 0);
  EXPECT_EQ(allocated_bytes(), kUnitBytes) << "of the other";
}

TEST_F(HangingDrive, MemoryThatItMayUseIsNamedWhereMemoryIsShort) {
  const Tensors t = session_.tensors(3);
  ssd().has_time_out = true;
  ssd().hang(io::Direction::kWrite);
  const Status status = session_.try_born(kUnitBytes).status();
  EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("are in use by drives that do not answer"));
}

// --- Runtime ------------------------------------------------------------------------------------

TEST(HangingDriveOfARuntime, AHandlerRunsWithoutTheLockAndTheOpGoesOn) {
  ScriptedInterrupt interrupt;
  RuntimeSession session({.evict_after_every_op = true, .interrupt = &interrupt});
  engine::LiveTensor* a = session.born();
  session.op(1, {a});
  session.ssd().hang(io::Direction::kRead);
  interrupt.come();
  interrupt.has_to_end = false;
  interrupt.handle = [&] {
    (void)session.runtime().figures().counters;  // takes the lock
    session.ssd().hangs = nullptr;
  };
  session.op(2, {a});
  EXPECT_EQ(interrupt.handled_count, 1);
}

TEST(HangingDriveOfARuntime, ADiscardEndsTheWaitOfAnotherThread) {
  RuntimeSession session({.evict_after_every_op = true});
  engine::LiveTensor* a = session.born();
  session.op(1, {a});
  session.ssd().hang(io::Direction::kRead);
  session.ssd().hanging = {"drive0 has not answered"};
  std::promise<void> waits;
  session.clock().pass = [&, has_told = false]() mutable {
    if (session.ssd().waiting().empty() || std::exchange(has_told, true)) return;
    waits.set_value();
  };
  Status status;
  std::thread other([&] {
    engine::OpFrame frame = RuntimeSession::frame({a});
    status = session.runtime().begin_op(frame, 2).status();
  });
  waits.get_future().wait();
  session.runtime().discard();
  other.join();
  EXPECT_EQ(status.code(), ErrorCode::kInterrupted);
  EXPECT_TRUE(session.runtime().figures().uses_stores);
  EXPECT_TRUE(session.runtime().figures().has_transfers);
  session.ssd().hangs = nullptr;
}

}  // namespace
}  // namespace teraio::runtime
