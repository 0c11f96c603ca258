#include "engine/tensor_mover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "device/op_timer.h"
#include "engine/fixture/mover_session.h"
#include "testing/forwarding_device.h"
#include "testing/no_silent_skips.h"

namespace teraio::engine {
namespace {

using ::testing::ElementsAre;
using testing::kUnitBytes;
using testing::MoverSession;

// One tensor on the device, and tiers whose transfers end when the test, or the wait, says so.
class TensorMoverTest : public ::testing::Test {
 protected:
  MoverSession session_{4};
  device::Device& device_ = session_.device();
  testing::ScriptedStore& ssd_ = session_.ssd;
  TierCopies& copies_ = session_.copies;
  TensorMover& mover_ = session_.mover;
  LiveTensor* tensor_ = session_.tensor();
};

TEST_F(TensorMoverTest, AVersionLastsUntilBytesMayHaveChanged) {
  const auto before = bytes_version(*tensor_);
  EXPECT_EQ(bytes_version(*tensor_), before);
  ++tensor_->uses.pin_count;  // by an op that may write
  const auto during = bytes_version(*tensor_);
  EXPECT_NE(during, before);
  EXPECT_NE(bytes_version(*tensor_), during);
  --tensor_->uses.pin_count;
  EXPECT_EQ(bytes_version(*tensor_), before);
  mover_.mark_written(*tensor_);
  EXPECT_NE(bytes_version(*tensor_), before);
  tensor_->uses.is_address_known = true;
  EXPECT_EQ(bytes_version(*tensor_), std::nullopt);
}

// Compute that the program has enqueued since does not use their memory.
TEST_F(TensorMoverTest, TransfersWaitForTheLastUseOfTheirMemoryOnly) {
  EngineOptions options = session_.options;
  options.poison_released_memory = false;  // which would use it
  EngineCounters counters;
  ComputePoints points(device_);
  TensorMover mover(options, copies_, points, counters);
  LiveTensor* other = session_.tensor();
  const auto run_op = [&](LiveTensor* written) {
    points.begin_op();
    session_.compute->write(written->memory, written->size_bytes, written->id);
    written->uses.last_op = points.op();
    (void)points.end_op(5'000'000);
  };
  const auto start = [&](LiveTensor* tensor) {
    ASSERT_TRUE(copies_.reserve(*tensor, plan::Tier::kSsd, storage::Priority::kUrgent, {}).ok());
    mover.start_write(*tensor, plan::Tier::kSsd, storage::Priority::kPlanned);
  };
  run_op(tensor_);
  run_op(other);
  points.begin_op();
  start(tensor_);
  ASSERT_TRUE(device_.wait(ssd_.waiting().front().transfer.ready).ok());
  ssd_.end_all();
  ASSERT_TRUE(mover.wait_until_idle(WaitPolicy::kEndless).ok());
  ASSERT_EQ(tensor_->residency, Residency::kOffloaded);
  run_op(other);
  mover.start_read(*tensor_, device_.allocate(kUnitBytes), storage::Priority::kPlanned, 0);
  EXPECT_EQ(ssd_.waiting().front().transfer.ready.id, 0u) << "its memory was not used since";
  ssd_.end_all();
  ASSERT_TRUE(mover.wait_until_idle(WaitPolicy::kEndless).ok());
  session_.expect_content(*tensor_);
}

// A device that writes down when its timer is told of a pause.
class TimedDevice final : public testing::ForwardingDevice, public device::OpTimer {
 public:
  using ForwardingDevice::ForwardingDevice;
  device::OpTimer* op_timer() override { return this; }
  void start() override {}
  void end_op() override {}
  void begin_pause() override { calls.emplace_back("begin_pause"); }
  void leave_out() override { calls.emplace_back("leave_out"); }
  Result<std::vector<int64_t>> durations_ns() override { return std::vector<int64_t>(); }

  std::vector<std::string> calls;
};

TEST_F(TensorMoverTest, NoOpIsChargedForTheWaitOfTheHost) {
  TimedDevice timed(device_);
  EngineOptions options = session_.options;
  options.device = &timed;
  EngineCounters counters;
  ComputePoints points(timed);
  TensorMover mover(options, copies_, points, counters);
  ASSERT_TRUE(copies_.reserve(*tensor_, plan::Tier::kSsd, storage::Priority::kUrgent, {}).ok());
  mover.start_write(*tensor_, plan::Tier::kSsd, storage::Priority::kPlanned);
  ASSERT_TRUE(mover.wait_for_arrival(StallCause::kMemory, WaitPolicy::kOfOp).ok());
  EXPECT_THAT(timed.calls, ElementsAre("begin_pause", "leave_out"));
  mover.start_read(*tensor_, device_.allocate(tensor_->size_bytes), storage::Priority::kPlanned, 0);
  ssd_.end_all();
  ASSERT_TRUE(mover.wait_for_arrival(StallCause::kRead, WaitPolicy::kOfOp).ok());
  EXPECT_EQ(timed.calls.size(), 2u) << "it had arrived";
  while (!mover.is_idle())
    ASSERT_TRUE(mover.wait_for_arrival(StallCause::kNone, WaitPolicy::kEndless).ok());
}

TEST_F(TensorMoverTest, AfterTenSecondsTheLogNamesTheDriveThatDoesNotAnswer) {
  session_.offload(*tensor_);
  session_.start_read(*tensor_);
  ssd_.hanging = {"drive0 has not answered a read"};
  int pass_count = 0;
  session_.clock.pass = [&] {
    if (++pass_count == 2) session_.clock.skipped_ns += 12'000'000'000;
    if (pass_count == 3) ssd_.end_one();
  };
  std::ostringstream log;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log);
  spdlog::default_logger()->sinks().push_back(sink);
  session_.wait_until_idle();
  spdlog::default_logger()->sinks().pop_back();
  EXPECT_THAT(log.str(), ::testing::HasSubstr(
                             "waited 12 s for a transfer: ssd: drive0 has not answered a read"));
  session_.expect_content(*tensor_);
}

TEST_F(TensorMoverTest, AReadTakesTheCopyOfTheHostTier) {
  for (const plan::Tier tier : {plan::Tier::kSsd, plan::Tier::kHost}) {
    ++tensor_->uses.pin_count;  // it stays
    session_.start_write(*tensor_, tier);
    session_.wait_until_idle();
    --tensor_->uses.pin_count;
  }
  ASSERT_TRUE(mover_.drop(*tensor_));
  session_.start_read(*tensor_);
  EXPECT_EQ(session_.host.waiting_count(io::Direction::kRead), 1);
  session_.wait_until_idle();
  session_.expect_content(*tensor_);
}

TEST_F(TensorMoverTest, ATensorThatItsOwnerKeepsStays) {
  session_.swap.keep(*tensor_);
  session_.start_write(*tensor_);
  session_.wait_until_idle();
  session_.expect_content(*tensor_);
  EXPECT_FALSE(mover_.drop(*tensor_));
}

// A read whose last copies the device has been given. Where memory is the CPU's there are none.
class LateReadTest : public TensorMoverTest {
 protected:
  void SetUp() override {
    if (device_.is_host_addressable())
      GTEST_SKIP() << testing::kNotApplicable << "reads end in memory of the CPU";
    session_.offload(*tensor_);
    ssd_.can_cancel = false;
    session_.start_read(*tensor_);
    ASSERT_TRUE(mover_.take_arrivals());
    ASSERT_TRUE(mover_.order_after_arrival(*tensor_));
  }
};

TEST_F(LateReadTest, AnotherStreamWaitsForItsBytes) {
  testing::TestDevice& compute = *session_.compute;
  void* stream = compute.other_stream();
  ASSERT_TRUE(mover_.order_stream(stream, *tensor_).ok());
  compute.write_elsewhere(tensor_->memory, kUnitBytes, 99, stream,
                          testing::TestDevice::Begins::kAtOnce);
  ASSERT_TRUE(device_.order_after(device_.record_on(stream)).ok());
  compute.expect(tensor_->memory, kUnitBytes, 99, tensor_->id);
  ASSERT_TRUE(device_.wait(device_.record()).ok());
}

}  // namespace
}  // namespace teraio::engine
