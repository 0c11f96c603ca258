// What leaves and what stays, without ops. How programs meet it: eviction_test.cpp.
#include "engine/evictor.h"

#include <gtest/gtest.h>

#include "engine/fixture/mover_session.h"
#include "testing/forwarding_device.h"

namespace teraio::engine {
namespace {

using testing::kUnitBytes;
using testing::MoverSession;

class EvictorTest : public ::testing::Test {
 protected:
  // Memory that the test gives back.
  Status obtain(int64_t units) {
    const Result<std::byte*> memory = evictor_.obtain_memory(units * kUnitBytes, {schedule_});
    if (memory.ok()) session_.device().release(*memory);
    return memory.status();
  }

  MoverSession session_{3};
  iteration::Schedule schedule_;
  Evictor evictor_{session_.options, session_.live, session_.copies, session_.mover,
                   session_.counters};
};

TEST_F(EvictorTest, ATensorInUseCannotLeave) {
  LiveTensor* tensor = session_.tensor();
  EXPECT_TRUE(evictor_.can_leave(*tensor));
  tensor->uses.pin_count = 1;
  EXPECT_FALSE(evictor_.can_leave(*tensor));
  tensor->uses.pin_count = 0;
  tensor->transfer.is_copy_pending = true;
  EXPECT_FALSE(evictor_.can_leave(*tensor));
  tensor->transfer.is_copy_pending = false;
  tensor->birth.is_complete = false;
  EXPECT_FALSE(evictor_.can_leave(*tensor)) << "its op may not have completed it";
}

TEST_F(EvictorTest, MoreThanCanLeaveIsOutOfMemory) {
  LiveTensor* pinned = session_.tensor(2);
  ++pinned->uses.pin_count;
  const Status status = obtain(2);
  EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
  EXPECT_NE(status.message().find(format_size(4 * kUnitBytes)), std::string::npos) << "needs";
  const std::string size = format_size(2 * kUnitBytes);
  EXPECT_NE(status.message().find(size + " are operands"), std::string::npos) << status.message();
  ++pinned->uses.write_pin_count;
  const Status other = obtain(2);
  EXPECT_NE(other.message().find(size + " are pinned by"), std::string::npos) << other.message();
}

// Its drive may never answer: nobody counts on its memory.
TEST_F(EvictorTest, OthersLeaveInThePlaceOfWhatHangs) {
  LiveTensor* hanging = session_.tensor();
  session_.tensor();
  session_.tensor();
  hanging->residency = Residency::kLoading;
  hanging->transfer.unanswered = std::make_unique<Status>(ErrorCode::kIoError, "no answer");
  evictor_.evict_by_plan(*hanging, {0, plan::Action::kOffload, 0, 0, plan::Tier::kSsd});
  EXPECT_TRUE(obtain(1).ok());
  hanging->transfer.unanswered.reset();
  hanging->residency = Residency::kResident;
}

// A device whose free memory is scattered: no part is large enough.
class DeviceInPieces final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::byte* allocate_block(int64_t, device::Effort, const device::Tenant&) override {
    return nullptr;
  }
};

TEST_F(EvictorTest, AnErrorDoesNotAskForLessThanTheBudget) {
  DeviceInPieces device(session_.device());
  EngineOptions options = session_.options;
  options.device = &device;
  Evictor evictor(options, session_.live, session_.copies, session_.mover, session_.counters);
  const Status status = evictor.obtain_memory(2 * kUnitBytes, {schedule_}).status();
  EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(status.message().find("at least"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("smaller pieces"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("finds that of the first steps"), std::string::npos);
  options.least_budget_bytes = [] { return kUnitBytes; };
  Evictor knowing(options, session_.live, session_.copies, session_.mover, session_.counters);
  const Status known = knowing.obtain_memory(2 * kUnitBytes, {schedule_}).status();
  EXPECT_NE(known.message().find("; the iterations so far need a budget of " +
                                 std::to_string(kUnitBytes)),
            std::string::npos)
      << known.message();
}

TEST_F(EvictorTest, AnErrorNamesTheBudgetThatKnownIterationsNeed) {
  EngineOptions options = session_.options;
  options.least_budget_bytes = [] { return 50 * kUnitBytes; };
  Evictor evictor(options, session_.live, session_.copies, session_.mover, session_.counters);
  const Status status = evictor.obtain_memory(30 * kUnitBytes, {schedule_}).status();
  EXPECT_NE(status.message().find("need a budget of " + std::to_string(50 * kUnitBytes)),
            std::string::npos)
      << status.message();
  const Status larger = evictor.obtain_memory(60 * kUnitBytes, {schedule_}).status();
  EXPECT_NE(larger.message().find("at least " + std::to_string(60 * kUnitBytes)), std::string::npos)
      << larger.message();
  EXPECT_NE(larger.message().find("; the iterations so far need a budget of "), std::string::npos)
      << larger.message();
  LiveTensor* held = session_.tensor();
  ++held->uses.pin_count;
  held->uses.is_address_known = true;
  const Status with_held = evictor.obtain_memory(30 * kUnitBytes, {schedule_}).status();
  EXPECT_NE(with_held.message().find(std::to_string(51 * kUnitBytes)), std::string::npos)
      << with_held.message();
}

TEST_F(EvictorTest, ByPlanATensorWithoutRoomOnItsTierIsSkipped) {
  evictor_.evict_by_plan(*session_.tensor(2), {.tier = plan::Tier::kHost});
  EXPECT_EQ(session_.counters.skipped_migrations, 1);
  EXPECT_TRUE(session_.mover.last_error().ok()) << "the ssd tier may have room";
}

TEST_F(EvictorTest, ByPlanATensorStaysOnItsTierWhereTheOtherHasNoRoom) {
  LiveTensor* tensor = session_.tensor(2);
  session_.offload(*tensor);
  session_.start_read(*tensor);
  session_.wait_until_idle();
  evictor_.evict_by_plan(*tensor, {.tier = plan::Tier::kHost});
  EXPECT_EQ(tensor->residency, Residency::kOffloaded);
  EXPECT_TRUE(tensor->copy(plan::Tier::kSsd).is_valid);
  EXPECT_EQ(session_.counters.planned_drops, 1);
}

}  // namespace
}  // namespace teraio::engine
