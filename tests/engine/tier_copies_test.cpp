#include "engine/tier_copies.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "engine/fixture/scripted_store.h"
#include "engine/fixture/test_device.h"
#include "iteration/fixture/planned_program.h"

namespace teraio::engine {
namespace {

using storage::Priority;
using testing::kUnitBytes;
using testing::PlannedProgram;
using testing::ScriptedStore;

// Two tensors of one unit, and a tier for as many units as a test says. There is no host tier.
class TierCopiesTest : public ::testing::Test {
 protected:
  void open(int64_t units) {
    ssd_ = std::make_unique<ScriptedStore>("ssd", units * kUnitBytes, device_->device());
    copies_ = std::make_unique<TierCopies>(
        std::array<storage::TierStore*, kTierCount>{ssd_.get(), nullptr});
    for (LiveTensor& tensor : t_) {
      tensor.id = live_.size() + 1;
      tensor.size_bytes = kUnitBytes;
      live_.push_back(&tensor);
    }
  }
  void TearDown() override {
    if (ssd_ != nullptr) ssd_->end_all();
    for (LiveTensor* tensor : live_) copies_->release(*tensor);
    device_->device().release(memory_);
    device_->finish();
  }

  Status reserve(LiveTensor& tensor, Priority priority = Priority::kUrgent) {
    return copies_->reserve(tensor, plan::Tier::kSsd, priority, live_);
  }
  static TierCopy& copy(LiveTensor& tensor) { return tensor.copy(plan::Tier::kSsd); }

  // The plan offloads the first tensor.
  void lay_out() {
    PlannedProgram program;
    program.persistent(t_[0]);
    program.idle_ops(3);
    program.offload(0, 1);
    const iteration::Schedule schedule = program.schedule();
    binding_.follow(schedule.profile().trace.tensors, live_);
    copies_->lay_out(schedule, binding_, live_);
  }

  void submit_write(LiveTensor& tensor) {
    ASSERT_TRUE(reserve(tensor).ok());
    storage::Transfer transfer;
    transfer.direction = io::Direction::kWrite;
    transfer.memory = memory_;
    transfer.done = [](const storage::Completion&) {};
    copies_->submit(tensor, plan::Tier::kSsd, std::move(transfer));
  }
  // A write that begins when all others have ended, and fails.
  void fail_write() {
    submit_write(t_[1]);
    ssd_->end_all();
    copies_->note_failed_write(t_[1], plan::Tier::kSsd);
  }

  std::unique_ptr<testing::TestDevice> device_ = testing::make_test_device(8 * kUnitBytes);
  std::byte* memory_ = device_->device().allocate(kUnitBytes);
  std::unique_ptr<ScriptedStore> ssd_;
  std::unique_ptr<TierCopies> copies_;
  std::array<LiveTensor, 2> t_;
  std::vector<LiveTensor*> live_;
  ProfileBinding binding_;
};

TEST_F(TierCopiesTest, ATierThatDoesNotExistTakesNoWrites) {
  open(4);
  EXPECT_TRUE(copies_->takes_writes(plan::Tier::kSsd));
  EXPECT_FALSE(copies_->takes_writes(plan::Tier::kHost));
}

TEST_F(TierCopiesTest, AWriteThatEndsWellIsANewStart) {
  open(4);
  for (int i = 0; i < 5; ++i) {
    fail_write();
    copies_->note_written(plan::Tier::kSsd);
  }
  EXPECT_TRUE(copies_->takes_writes(plan::Tier::kSsd));
}

TEST_F(TierCopiesTest, WritesThatWereUnderWayAtAFailureFailWithIt) {
  open(4);
  submit_write(t_[0]);
  fail_write();
  copies_->note_failed_write(t_[0], plan::Tier::kSsd);
  EXPECT_TRUE(copies_->takes_writes(plan::Tier::kSsd));
}

TEST_F(TierCopiesTest, StaleCopiesGetNewPlacesAfterAFailure) {
  open(4);
  lay_out();
  ASSERT_TRUE(reserve(t_[0]).ok());
  const storage::Extent extent = copy(t_[0]).extent;
  fail_write();
  ASSERT_TRUE(reserve(t_[0]).ok());
  EXPECT_NE(copy(t_[0]).extent, extent);
  EXPECT_TRUE(ssd_->laid_out.empty());
}

TEST_F(TierCopiesTest, AFullTierKeepsValidCopies) {
  open(1);
  ASSERT_TRUE(reserve(t_[0]).ok());
  copy(t_[0]).is_valid = true;
  EXPECT_EQ(reserve(t_[1]).code(), ErrorCode::kOutOfSpace);
  EXPECT_TRUE(copy(t_[0]).extent.is_valid());
  EXPECT_FALSE(copy(t_[1]).extent.is_valid());
}

TEST_F(TierCopiesTest, AFullTierKeepsTheExtentsOfTransfersUnderWay) {
  open(1);
  ASSERT_TRUE(reserve(t_[0]).ok());
  t_[0].transfer.tier = plan::Tier::kSsd;
  t_[0].residency = Residency::kOffloading;
  EXPECT_FALSE(reserve(t_[1]).ok());
  t_[0].residency = Residency::kResident;
  t_[0].transfer.is_copy_pending = true;
  EXPECT_FALSE(reserve(t_[1]).ok());
  t_[0].transfer.tier = plan::Tier::kHost;
  EXPECT_TRUE(reserve(t_[1]).ok()) << "it moves on another tier";
}

TEST_F(TierCopiesTest, ALayoutReclaimsStaleCopies) {
  open(4);
  ASSERT_TRUE(reserve(t_[1]).ok());
  lay_out();
  EXPECT_FALSE(copy(t_[1]).extent.is_valid());
}

TEST_F(TierCopiesTest, OnlyPlannedCopiesGetThePlacesOfTheLayout) {
  open(4);
  lay_out();
  ASSERT_TRUE(reserve(t_[0], Priority::kUrgent).ok());
  EXPECT_EQ(ssd_->planned_in_use(), 0);
  copies_->release(t_[0]);
  ASSERT_TRUE(reserve(t_[0], Priority::kPlanned).ok());
  EXPECT_EQ(ssd_->planned_in_use(), 1);
}

TEST_F(TierCopiesTest, ATensorOfAnotherSizeThanTheProfilesGetsAnyRoom) {
  open(4);
  lay_out();
  t_[0].size_bytes = 2 * kUnitBytes;
  ASSERT_TRUE(reserve(t_[0], Priority::kPlanned).ok());
  EXPECT_EQ(ssd_->planned_in_use(), 0);
  EXPECT_EQ(copy(t_[0]).extent.size_bytes, 2 * kUnitBytes);
}

TEST_F(TierCopiesTest, ALayoutIsGivenUpOnce) {
  open(4);
  EXPECT_FALSE(copies_->give_up_layouts()) << "there is none";
  lay_out();
  EXPECT_TRUE(copies_->give_up_layouts());
  EXPECT_TRUE(ssd_->laid_out.empty());
  EXPECT_FALSE(copies_->give_up_layouts());
  EXPECT_TRUE(reserve(t_[0], Priority::kPlanned).ok());
}

}  // namespace
}  // namespace teraio::engine
