// Planned reads: when they start, what they may take, and what an op that cannot wait does.
#include <gtest/gtest.h>

#include "engine/fixture/engine_session.h"
#include "testing/forwarding_device.h"

namespace teraio::engine {
namespace {

using testing::EngineSession;
using testing::PlannedProgram;
using testing::SessionOptions;
using testing::Tensors;

// Some tensors of one unit, away on the ssd, that a program of idle ops knows.
class PrefetchTest : public ::testing::Test {
 protected:
  void open(const SessionOptions& options, int count) {
    session_.emplace(options);
    t_ = session_->tensors(count);
    for (LiveTensor* tensor : t_) known_.push_back(program_.persistent(*tensor));
    session_->send_everything_away();
  }
  void follow() { session_->engine().plan().follow(program_.shared_schedule()); }
  Status op(trace::OpIndex position, const Tensors& reads = {}) {
    return session_->op(position, reads);
  }

  std::optional<EngineSession> session_;
  Tensors t_;
  std::vector<trace::TensorIndex> known_;
  PlannedProgram program_;
};

TEST_F(PrefetchTest, IsThereBeforeItsOp) {
  open({}, 1);
  program_.idle_ops(4);
  program_.prefetch(known_[0], 1, 3);
  follow();
  ASSERT_TRUE(op(0).ok());
  EXPECT_EQ(t_[0]->residency, Residency::kOffloaded);
  ASSERT_TRUE(op(1).ok());
  EXPECT_EQ(t_[0]->residency, Residency::kLoading);
  session_->ssd().end_all();
  ASSERT_TRUE(op(2).ok());
  ASSERT_TRUE(op(3, {t_[0]}).ok());
  EXPECT_EQ(session_->counters().planned_prefetches, 1);
  EXPECT_EQ(session_->counters().late_prefetches, 0);
  EXPECT_EQ(session_->counters().stall_ns(), 0);
}

TEST_F(PrefetchTest, AnOpThatNeedsItNowMakesItUrgent) {
  open({}, 3);
  program_.idle_ops(9);
  program_.prefetch(known_[0], 0, 1);
  program_.prefetch(known_[1], 0, 2);
  program_.prefetch(known_[2], 0, 8);
  follow();
  ASSERT_TRUE(op(0).ok());
  ASSERT_TRUE(op(1, {t_[2]}).ok());
  EXPECT_EQ(session_->ssd().expedite_count, 1);
  EXPECT_EQ(session_->ssd().waiting_count(io::Direction::kRead), 2) << "the others came after it";
  EXPECT_EQ(session_->counters().late_prefetches, 1);
  EXPECT_EQ(session_->counters().urgent_reads, 0);
  session_->let_all_end();
}

TEST_F(PrefetchTest, AnUrgentReadGoesBeforePlannedOnes) {
  open({}, 3);
  program_.idle_ops(9);
  program_.prefetch(known_[0], 0, 1);
  program_.prefetch(known_[1], 0, 2);
  follow();
  ASSERT_TRUE(op(0).ok());
  ASSERT_TRUE(op(1, {t_[2]}).ok());
  EXPECT_EQ(session_->ssd().waiting_count(io::Direction::kRead), 2);
  EXPECT_EQ(session_->counters().urgent_reads, 1);
  session_->let_all_end();
}

TEST_F(PrefetchTest, FallsDueDuringTheOffload) {
  open({}, 1);
  ASSERT_TRUE(session_->write({t_[0]}).ok());
  program_.idle_ops(4);
  program_.offload(known_[0], 0);
  program_.prefetch(known_[0], 1, 3);
  follow();
  const int64_t stall_ns = session_->counters().stall_ns();
  ASSERT_TRUE(op(0).ok());
  ASSERT_TRUE(op(1).ok());
  EXPECT_EQ(t_[0]->residency, Residency::kOffloading);
  session_->ssd().end_all();
  ASSERT_TRUE(op(2).ok());
  EXPECT_EQ(t_[0]->residency, Residency::kResident) << "it is wanted back: it does not leave";
  EXPECT_NE(t_[0]->valid_copy(), nullptr);
  ASSERT_TRUE(op(3, {t_[0]}).ok());
  EXPECT_EQ(session_->counters().stall_ns(), stall_ns);
}

TEST_F(PrefetchTest, LeavesTheMemoryThatTheOpNeedsForItsResults) {
  open({.budget_units = 2}, 1);
  program_.op({}, {program_.born(2)});
  program_.idle_ops(2);
  program_.prefetch(known_[0], 0, 2);
  follow();
  const int64_t offload_count = session_->counters().on_demand_offloads;
  ASSERT_TRUE(session_->begin(0, {}).ok());
  EXPECT_EQ(t_[0]->residency, Residency::kOffloaded);
  LiveTensor* result = session_->born(2);
  session_->end(0, {});
  EXPECT_EQ(session_->counters().on_demand_offloads, offload_count) << "nothing had to leave";
  session_->die(result);
  ASSERT_TRUE(op(1).ok());
  EXPECT_EQ(t_[0]->residency, Residency::kLoading) << "now there is room";
  session_->let_all_end();
}

TEST_F(PrefetchTest, LeavesTheWorkspace) {
  open({.budget_units = 2}, 1);
  program_.op({}, {}, {}, /*workspace_units=*/2);
  program_.idle_ops(2);
  program_.prefetch(known_[0], 0, 2);
  follow();
  ASSERT_TRUE(op(0).ok());
  EXPECT_EQ(t_[0]->residency, Residency::kOffloaded);
  ASSERT_TRUE(op(1).ok());
  EXPECT_EQ(t_[0]->residency, Residency::kLoading);
  session_->let_all_end();
}

// While the program waits for the device, for example.
TEST_F(PrefetchTest, StartsBetweenOpsWhenAnOffloadHasFreedMemory) {
  open({.budget_units = 2}, 1);
  LiveTensor* leaving = session_->tensor(2);
  program_.idle_ops(9);
  program_.offload(program_.persistent(*leaving), 0);
  program_.prefetch(known_[0], 0, 7);
  follow();
  ASSERT_TRUE(op(0).ok());
  ASSERT_EQ(t_[0]->residency, Residency::kOffloaded);
  EXPECT_FALSE(session_->engine().mover().has_arrivals());
  session_->ssd().end_all();
  EXPECT_TRUE(session_->engine().mover().has_arrivals());
  session_->engine().take_arrivals();
  EXPECT_EQ(t_[0]->residency, Residency::kLoading);
  session_->let_all_end();
}

TEST_F(PrefetchTest, StartsBetweenOpsOnlyInMemoryThatTheNextOpDoesNotNeed) {
  open({.budget_units = 2}, 1);
  LiveTensor* leaving = session_->tensor(2);
  program_.op({});
  program_.op({}, {program_.born(2)});
  program_.idle_ops(2);
  program_.offload(program_.persistent(*leaving), 0);
  program_.prefetch(known_[0], 0, 3);
  follow();
  ASSERT_TRUE(op(0).ok());
  session_->ssd().end_all();
  session_->engine().take_arrivals();
  ASSERT_EQ(leaving->residency, Residency::kOffloaded);
  EXPECT_EQ(t_[0]->residency, Residency::kOffloaded);
  session_->let_all_end();
}

TEST_F(PrefetchTest, WaitsForMemoryInTheOrderOfDeadlines) {
  open({.budget_units = 3}, 2);
  LiveTensor* large = session_->born(3);
  program_.idle_ops(9);
  program_.prefetch(known_[0], 0, 7);
  program_.prefetch(known_[1], 1, 3);
  follow();
  ASSERT_TRUE(op(0).ok());
  ASSERT_TRUE(op(1).ok());
  EXPECT_EQ(session_->ssd().waiting_count(io::Direction::kRead), 0);
  session_->die(large);
  session_->born(2);
  ASSERT_TRUE(op(2).ok());
  EXPECT_EQ(t_[0]->residency, Residency::kOffloaded);
  EXPECT_EQ(t_[1]->residency, Residency::kLoading) << "its deadline comes first";
  session_->let_all_end();
}

TEST_F(PrefetchTest, ADeadlineInTheNextIterationComesBeforeThoseBehindIt) {
  open({.budget_units = 3}, 2);
  session_->born(2);
  ASSERT_TRUE(session_->use({t_[1]}).ok());
  program_.idle_ops(9);
  program_.prefetch(known_[0], 8, 2);  // over the end: op 2 of the next iteration
  program_.prefetch(known_[1], 0, 7);  // it is there in the first iteration
  follow();
  ASSERT_TRUE(op(8).ok());
  session_->engine().plan().start_iteration();
  LiveTensor* in_the_way = session_->born();
  ASSERT_TRUE(op(0).ok());
  ASSERT_EQ(t_[1]->residency, Residency::kOffloaded);
  session_->die(in_the_way);
  ASSERT_TRUE(op(1).ok());
  EXPECT_EQ(t_[0]->residency, Residency::kLoading) << "needed at op 2";
  EXPECT_EQ(t_[1]->residency, Residency::kOffloaded) << "needed at op 7";
  session_->let_all_end();
}

TEST_F(PrefetchTest, AJumpBringsTensorsToWhereThePlanHasThemThere) {
  open({}, 2);
  program_.idle_ops(9);
  program_.prefetch(known_[0], 0, 2);
  program_.offload(known_[0], 4);
  program_.prefetch(known_[1], 5, 7);
  program_.offload(known_[1], 8);
  follow();
  for (trace::OpIndex position = 0; position <= 6; ++position) {
    ASSERT_TRUE(op(position).ok());
    session_->ssd().end_all();
  }
  EXPECT_EQ(t_[0]->residency, Residency::kOffloaded);
  session_->engine().plan().jump_to(2);
  ASSERT_TRUE(op(2).ok());
  EXPECT_EQ(t_[0]->residency, Residency::kLoading);
  EXPECT_EQ(t_[1]->residency, Residency::kOffloaded);
}

TEST_F(PrefetchTest, OfWhatIsThereAlreadyDoesNothing) {
  open({}, 1);
  program_.idle_ops(3);
  program_.prefetch(known_[0], 0, 2);
  follow();
  ASSERT_TRUE(session_->use({t_[0]}).ok());
  ASSERT_TRUE(op(0).ok());
  EXPECT_EQ(session_->counters().planned_prefetches, 0);
}

TEST_F(PrefetchTest, StartsWhileAnOpWaitsForSomethingElse) {
  open({.budget_units = 2}, 2);
  LiveTensor* leaving = session_->tensor(2);
  const trace::TensorIndex leaving_index = program_.persistent(*leaving);
  program_.idle_ops(9);
  program_.offload(leaving_index, 0);
  program_.prefetch(known_[1], 1, 5);
  follow();
  ASSERT_TRUE(op(0).ok());
  ASSERT_TRUE(op(1, {t_[0]}).ok());  // waits for the write, then for its own bytes
  ASSERT_TRUE(op(2, {t_[0]}).ok());
  EXPECT_EQ(t_[1]->residency, Residency::kLoading);
  session_->let_all_end();
}

TEST_F(PrefetchTest, AFailureIsTriedAgainWhenTheOpNeedsIt) {
  open({}, 1);
  program_.idle_ops(4);
  program_.prefetch(known_[0], 0, 3);
  follow();
  ASSERT_TRUE(op(0).ok());
  session_->ssd().fail(io::Direction::kRead, "passing");
  session_->ssd().end_all();
  session_->ssd().heal();
  ASSERT_TRUE(op(1).ok());
  EXPECT_EQ(t_[0]->residency, Residency::kOffloaded);
  ASSERT_TRUE(op(3, {t_[0]}).ok());
  EXPECT_EQ(session_->counters().failed_transfers, 1);
  EXPECT_EQ(session_->counters().urgent_reads, 1);
}

class UsageCounter final : public testing::ForwardingDevice {
 public:
  UsageCounter(device::Device& behind, int64_t& count) : ForwardingDevice(behind), count_(count) {}
  device::MemoryUsage complete(device::MemoryUsage usage) const override {
    ++count_;
    return ForwardingDevice::complete(usage);
  }

 private:
  int64_t& count_;
};

// On a GPU that is two questions to PyTorch's allocator, under its lock.
TEST_F(PrefetchTest, WaitsForRoomWithoutAskingForTheWholeUsage) {
  int64_t usage_count = 0;
  SessionOptions options;
  options.budget_units = 2;
  options.front = [&](device::Device& device) {
    return std::make_unique<UsageCounter>(device, usage_count);
  };
  open(options, 1);
  LiveTensor* in_the_way = session_->tensor(2);
  program_.idle_ops(9);
  program_.prefetch(known_[0], 1, 8);
  follow();
  usage_count = 0;
  for (trace::OpIndex position = 0; position < 5; ++position) ASSERT_TRUE(op(position).ok());
  EXPECT_EQ(t_[0]->residency, Residency::kOffloaded);
  session_->die(in_the_way);
  ASSERT_TRUE(op(5).ok());
  EXPECT_EQ(t_[0]->residency, Residency::kLoading);
  EXPECT_EQ(usage_count, 0);
  session_->let_all_end();
}

}  // namespace
}  // namespace teraio::engine
