#include "engine/tensor_mover.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "engine/fixture/checking_swap.h"
#include "engine/fixture/scripted_store.h"
#include "engine/fixture/test_device.h"
#include "engine/fixture/waiting_clock.h"
#include "testing/no_silent_skips.h"

namespace teraio::engine {
namespace {

using storage::Priority;
using testing::ScriptedStore;

constexpr int64_t kSizeBytes = 64 * kKiB;
constexpr uint64_t kContent = 42;

// One tensor on the device, and tiers whose transfers end when the test, or the wait, says so.
class TensorMoverTest : public ::testing::Test {
 protected:
  TensorMoverTest() {
    clock_.pass = [this] {
      if (!ssd_.end_one()) host_.end_one();
    };
    auto tensor = std::make_unique<LiveTensor>();
    tensor->id = 1;
    tensor->size_bytes = kSizeBytes;
    tensor->memory = device().allocate(kSizeBytes);
    tensor->owner = swap_.own(*tensor);
    device_->write(tensor->memory, kSizeBytes, kContent);
    tensor_ = tensor.release();
  }
  ~TensorMoverTest() override {
    if (tensor_ != nullptr) destroy();
    mover_.wait_until_idle();
    EXPECT_EQ(device().allocated_bytes(), 0);
    EXPECT_EQ(mover_.offloaded_bytes(), 0);
    EXPECT_EQ(mover_.bytes_leaving(), 0);
    device_->finish();
  }

  device::Device& device() { return device_->device(); }
  void destroy() {
    swap_.forget(*tensor_);
    mover_.destroy(*std::exchange(tensor_, nullptr));
  }
  void start_write(plan::Tier tier = plan::Tier::kSsd) {
    ASSERT_TRUE(copies_.reserve(*tensor_, tier, Priority::kUrgent, {}).ok());
    mover_.start_write(*tensor_, tier, Priority::kPlanned);
  }
  void offload() {
    start_write();
    mover_.wait_until_idle();
    ASSERT_EQ(tensor_->residency, Residency::kOffloaded);
  }
  void start_read() {
    mover_.start_read(*tensor_, device().allocate(kSizeBytes), Priority::kPlanned, 0);
  }
  void expect_content() {
    ASSERT_EQ(tensor_->residency, Residency::kResident);
    device_->expect(tensor_->memory, kSizeBytes, kContent, tensor_->id);
  }

  std::unique_ptr<testing::TestDevice> device_ = testing::make_test_device(4 * kSizeBytes);
  ScriptedStore ssd_{"ssd", 8 * kSizeBytes, device_->device()};
  ScriptedStore host_{"host", 8 * kSizeBytes, device_->device()};
  testing::CheckingSwap swap_;
  testing::WaitingClock clock_{testing::WaitingClock::Passes::kWhileTheEngineWaits};
  EngineCounters counters_;
  TierCopies copies_{{&ssd_, &host_}};
  TensorMover mover_{
      {.device = &device_->device(), .swap = &swap_, .clock = &clock_}, copies_, counters_};
  LiveTensor* tensor_ = nullptr;
};

TEST_F(TensorMoverTest, AWriteTakesTheTensorOffTheDevice) {
  start_write();
  EXPECT_EQ(tensor_->residency, Residency::kOffloading);
  EXPECT_EQ(mover_.bytes_leaving(), kSizeBytes);
  ssd_.end_all();
  EXPECT_EQ(tensor_->residency, Residency::kOffloading) << "states change only inside calls";
  EXPECT_TRUE(mover_.take_arrivals());
  EXPECT_EQ(tensor_->residency, Residency::kOffloaded);
  EXPECT_EQ(mover_.bytes_leaving(), 0);
  EXPECT_EQ(mover_.offloaded_bytes(), kSizeBytes);
  EXPECT_EQ(device().allocated_bytes(), 0);
}

TEST_F(TensorMoverTest, AReadBringsItsBytesBack) {
  offload();
  start_read();
  EXPECT_EQ(tensor_->residency, Residency::kLoading);
  EXPECT_EQ(mover_.offloaded_bytes(), 0);
  EXPECT_GT(mover_.wait_for_arrival(), 0);
  mover_.wait_until_idle();
  expect_content();
}

TEST_F(TensorMoverTest, NothingHasArrivedAtFirst) {
  EXPECT_TRUE(mover_.is_idle());
  EXPECT_FALSE(mover_.take_arrivals());
  EXPECT_FALSE(mover_.order_after_arrival(*tensor_));
}

TEST_F(TensorMoverTest, AReadTakesTheCopyOfTheHostTier) {
  for (const plan::Tier tier : {plan::Tier::kSsd, plan::Tier::kHost}) {
    ++tensor_->pin_count;  // it stays
    start_write(tier);
    mover_.wait_until_idle();
    --tensor_->pin_count;
  }
  ASSERT_TRUE(mover_.drop(*tensor_));
  start_read();
  EXPECT_EQ(host_.waiting_count(io::Direction::kRead), 1);
  mover_.wait_until_idle();
  expect_content();
}

TEST_F(TensorMoverTest, APinnedTensorStaysWithAValidCopy) {
  start_write();
  ++tensor_->pin_count;
  mover_.wait_until_idle();
  expect_content();
  EXPECT_NE(tensor_->valid_copy(), nullptr);
}

TEST_F(TensorMoverTest, ATensorThatIsWantedBackStays) {
  start_write();
  tensor_->is_wanted_back = true;
  mover_.wait_until_idle();
  expect_content();
}

TEST_F(TensorMoverTest, ATensorThatItsOwnerKeepsStays) {
  swap_.keep(*tensor_);
  start_write();
  mover_.wait_until_idle();
  expect_content();
  EXPECT_FALSE(mover_.drop(*tensor_));
}

TEST_F(TensorMoverTest, AWriteToTheTensorMakesItsCopiesStale) {
  for (const bool can_cancel : {true, false}) {
    ssd_.can_cancel = can_cancel;
    start_write();
    mover_.mark_written(*tensor_);
    mover_.wait_until_idle();
    EXPECT_EQ(tensor_->residency, Residency::kResident);
    EXPECT_EQ(tensor_->valid_copy(), nullptr);
  }
  EXPECT_EQ(counters_.failed_transfers, 0);
}

TEST_F(TensorMoverTest, AFailedWriteLeavesTheTensorAndEndsTheTier) {
  ssd_.fail(io::Direction::kWrite, "worn out");
  start_write();
  mover_.wait_until_idle();
  expect_content();
  EXPECT_FALSE(copies_.takes_writes(plan::Tier::kSsd));
  EXPECT_TRUE(copies_.takes_writes(plan::Tier::kHost));
  EXPECT_EQ(counters_.failed_transfers, 1);
  EXPECT_EQ(mover_.take_last_error().code(), ErrorCode::kIoError);
  EXPECT_TRUE(mover_.last_error().ok());
}

TEST_F(TensorMoverTest, AFailedReadLeavesTheTensorOnTheTier) {
  offload();
  ssd_.fail(io::Direction::kRead, "cable");
  start_read();
  mover_.wait_until_idle();
  EXPECT_EQ(tensor_->residency, Residency::kOffloaded);
  EXPECT_EQ(mover_.offloaded_bytes(), kSizeBytes);
  EXPECT_EQ(device().allocated_bytes(), 0);
  EXPECT_EQ(counters_.failed_transfers, 1);
  EXPECT_TRUE(mover_.failure().ok()) << "nothing has used it";
  ssd_.heal();
  start_read();
  mover_.wait_until_idle();
  expect_content();
}

// A read whose last copies the device has been given. Where memory is the CPU's there are none.
class LateReadTest : public TensorMoverTest {
 protected:
  void SetUp() override {
    if (device().is_host_addressable())
      GTEST_SKIP() << testing::kNotApplicable << "reads end in memory of the CPU";
    offload();
    ssd_.can_cancel = false;
    start_read();
    ASSERT_TRUE(mover_.take_arrivals());
    ASSERT_TRUE(mover_.order_after_arrival(*tensor_));
  }
};

TEST_F(LateReadTest, IsResidentBeforeItsEnd) {
  EXPECT_TRUE(tensor_->is_copy_pending);
  EXPECT_FALSE(mover_.is_idle());
  expect_content();
  mover_.wait_until_idle();
  EXPECT_FALSE(tensor_->is_copy_pending);
}

TEST_F(LateReadTest, AFailureStays) {
  ssd_.fail(io::Direction::kRead, "cable");
  mover_.wait_until_idle();
  EXPECT_EQ(mover_.failure().code(), ErrorCode::kIoError);
  EXPECT_TRUE(mover_.last_error().ok()) << "it is more than that";
  EXPECT_EQ(counters_.failed_transfers, 1);
}

class DestroyedTensorTest : public TensorMoverTest {
 protected:
  void expect_freed_at_the_end() {
    destroy();
    EXPECT_EQ(device().allocated_bytes(), kSizeBytes) << "the transfer still uses it";
    mover_.wait_until_idle();
    EXPECT_EQ(device().allocated_bytes(), 0);
    EXPECT_EQ(ssd_.counters().reserved_bytes, 0);
    EXPECT_EQ(counters_.failed_transfers, 0);
  }
};

TEST_F(DestroyedTensorTest, IsFreedWhenItsWriteHasEnded) {
  ssd_.can_cancel = false;
  start_write();
  expect_freed_at_the_end();
}

TEST_F(DestroyedTensorTest, IsFreedWhenItsWriteHasBeenCancelled) {
  start_write();
  expect_freed_at_the_end();
}

TEST_F(DestroyedTensorTest, IsFreedWhenItsReadHasEnded) {
  offload();
  ssd_.can_cancel = false;
  start_read();
  expect_freed_at_the_end();
}

TEST_F(DestroyedTensorTest, IsFreedAtOnceWhenNothingMoves) {
  offload();
  destroy();
  EXPECT_EQ(ssd_.counters().reserved_bytes, 0);
}

}  // namespace
}  // namespace teraio::engine
