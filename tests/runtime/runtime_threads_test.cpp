// Several threads that run ops at once.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/fixture/runtime_session.h"
#include "runtime/runtime.h"

namespace teraio::runtime {
namespace {

using testing::RuntimeSession;
using testing::RuntimeSessionOptions;
using testing::Tensors;
using testing::Trainee;

class RuntimeThreadsTest : public ::testing::Test {
 protected:
  void open(const RuntimeSessionOptions& options = {}) {
    session_.emplace(options);
    trainee_.emplace(*session_, /*layers=*/4);
  }
  Runtime& runtime() { return session_->runtime(); }
  // Calls it on two threads at once, which takes turns that have to succeed.
  void on_two_threads(const std::function<bool(size_t thread, size_t turn)>& take_turn) {
    std::atomic<int> failed_count = 0;
    const auto run = [&](size_t thread) {
      for (size_t i = 0; i < 500; ++i) failed_count += take_turn(thread, i) ? 0 : 1;
    };
    std::thread other(run, 1);
    run(0);
    other.join();
    EXPECT_EQ(failed_count, 0);
    EXPECT_GT(runtime().figures().counters.urgent_reads, 0);
  }

  std::optional<RuntimeSession> session_;
  std::optional<Trainee> trainee_;
};

// Each thread has tensors of its own; together they are more than the budget.
TEST_F(RuntimeThreadsTest, TwoThreadsRunOpsAtOnce) {
  open({.budget_units = 6});
  std::vector<Tensors> of_threads(2);
  for (Tensors& tensors : of_threads)
    for (int i = 0; i < 4; ++i) tensors.push_back(session_->op(1, {}, {}, 1));
  on_two_threads([&](size_t thread, size_t i) {
    engine::LiveTensor* tensor = of_threads[thread][i % 4];
    engine::OpFrame frame = RuntimeSession::frame({}, {tensor});
    const bool has_begun = runtime().begin_op(frame, 10 + thread).ok();
    const uint64_t seed = 1000 * thread + i;
    testing::TestDevice& compute = session_->compute();
    if (i >= 4) compute.expect(tensor->memory, tensor->size_bytes, seed - 4, tensor->id);
    compute.write(tensor->memory, tensor->size_bytes, seed);
    runtime().end_op(frame, "op", 10 + thread, {});
    return has_begun;
  });
}

// Both threads read the same tensors, which are more than the budget: what one evicts the other may
// use. Ops and pins take turns.
TEST_F(RuntimeThreadsTest, TwoThreadsShareTensors) {
  open({.budget_units = 6});
  Tensors shared;
  for (int i = 0; i < 12; ++i) shared.push_back(session_->op(1, {}, {}, 1));
  on_two_threads([&](size_t thread, size_t i) {
    engine::LiveTensor* tensor = shared[(i * (thread + 1)) % shared.size()];
    engine::OpFrame frame = RuntimeSession::frame({tensor});
    const bool is_pin = i % 3 == 2;
    const Status begun =
        is_pin ? runtime().pin(tensor) : runtime().begin_op(frame, 10 + thread).status();
    EXPECT_TRUE(is_complete(*tensor));
    session_->expect_bytes(*tensor);
    is_pin ? runtime().unpin(tensor) : runtime().end_op(frame, "op", 10 + thread, {});
    return begun.ok();
  });
}

// One thread's op is in the middle, its result half made, when everything else must leave.
TEST_F(RuntimeThreadsTest, TheResultOfAnOpUnderWayOnAnotherThreadStays) {
  open({.evict_after_every_op = true});
  std::promise<engine::LiveTensor*> is_born;
  std::promise<void> may_end;
  std::thread other([&] {
    engine::OpFrame frame;
    EXPECT_TRUE(runtime().begin_op(frame, 5).ok());
    engine::LiveTensor* result = session_->born();
    is_born.set_value(result);
    may_end.get_future().wait();
    frame.uses.push_back({result, true});
    runtime().end_op(frame, "op", 5, {});
  });
  engine::LiveTensor* result = is_born.get_future().get();
  session_->op(6, trainee_->weights);
  EXPECT_EQ(result->residency, engine::Residency::kResident);
  EXPECT_EQ(trainee_->weights[0]->residency, engine::Residency::kOffloaded);
  may_end.set_value();
  other.join();
  session_->op(7, {result});
}

// Another thread ends the iteration meanwhile, and goes on with shorter ones.
TEST_F(RuntimeThreadsTest, AnOpMayOutliveItsIteration) {
  open();
  const auto run_ops = [&](uint64_t kind, uint64_t count) {
    runtime().begin_step();
    for (uint64_t i = 0; i < count; ++i)
      session_->op(kind * 1'000'000 + i, {trainee_->weights[0]}, {trainee_->weights[1]});
  };
  const auto steps = [&](uint64_t kind, uint64_t count) {
    for (int i = 0; i < 6; ++i) {
      run_ops(kind, count);
      runtime().end_step();
    }
  };
  steps(1, 100);
  run_ops(1, 99);
  engine::OpFrame frame = RuntimeSession::frame({trainee_->weights[0]}, {trainee_->weights[1]});
  ASSERT_TRUE(runtime().begin_op(frame, 1'000'099).ok());
  ASSERT_EQ(frame.begun.position, 99);
  runtime().end_step();
  steps(2, 10);
  ASSERT_EQ(runtime().knowledge().trace->ops.size(), 10u);
  runtime().end_op(frame, "op", 1'000'099, {});
  steps(2, 10);
}

}  // namespace
}  // namespace teraio::runtime
