// Memory of other owners counts against the budget: other tensors leave for it, and plans have as
// much less. The same for memory that somebody pins.
#include <gtest/gtest.h>

#include <functional>

#include "runtime/fixture/runtime_session.h"

namespace teraio::runtime {
namespace {

using testing::kUnitBytes;
using testing::RuntimeSession;
using testing::RuntimeSessionOptions;

class OutsideMemoryTest : public ::testing::Test {
 protected:
  void open(const RuntimeSessionOptions& options = {}) { session_.emplace(options); }
  Runtime& runtime() { return session_->runtime(); }
  int64_t allocated_bytes() { return runtime().figures().memory.allocated_bytes; }

  std::optional<RuntimeSession> session_;
};

TEST_F(OutsideMemoryTest, IsCountedAsPinnedUntilItIsGone) {
  open();
  const int64_t before_bytes = allocated_bytes();
  runtime().add_outside_bytes(2 * kUnitBytes);
  runtime().add_outside_bytes(kUnitBytes);
  EXPECT_EQ(runtime().figures().outside_bytes, 3 * kUnitBytes);
  EXPECT_EQ(runtime().figures().permanently_pinned_bytes, 3 * kUnitBytes);
  EXPECT_EQ(runtime().figures(true).unmovable_bytes, 3 * kUnitBytes);
  EXPECT_EQ(allocated_bytes(), before_bytes + 3 * kUnitBytes);
  runtime().add_outside_bytes(-3 * kUnitBytes);
  EXPECT_EQ(runtime().figures().outside_bytes, 0);
  EXPECT_EQ(runtime().figures(true).unmovable_bytes, 0);
  EXPECT_EQ(allocated_bytes(), before_bytes);
}

TEST_F(OutsideMemoryTest, OtherTensorsLeaveForIt) {
  open();
  engine::LiveTensor* tensor = session_->born();
  session_->op(1, {tensor});
  const device::MemoryUsage usage = runtime().figures().memory;
  const int64_t outside_bytes = usage.budget_bytes - usage.allocated_bytes;
  runtime().add_outside_bytes(outside_bytes);
  engine::LiveTensor* other = session_->born();
  EXPECT_EQ(tensor->residency, engine::Residency::kOffloaded);
  EXPECT_FALSE(runtime().allocate(kUnitBytes).ok());
  session_->die(other);
  runtime().add_outside_bytes(-outside_bytes);
  session_->op(1, {tensor});
}

TEST_F(OutsideMemoryTest, PlansHaveAsMuchLess) {
  std::optional<iteration::Profile> planned;
  open({.make_plan = [&](const iteration::Profile& profile) {
    planned = profile;
    return Result<plan::Plan>(plan::Plan());
  }});
  runtime().add_outside_bytes(2 * kUnitBytes);
  engine::LiveTensor* weight = session_->born();
  for (int i = 0; i < 3; ++i) {
    session_->op(1, {weight});
    runtime().end_step();
  }
  ASSERT_TRUE(planned.has_value());
  EXPECT_EQ(planned->untouched_bytes, 2 * kUnitBytes);
}

TEST_F(OutsideMemoryTest, WhereOthersPinTheEndOfAPinIsWaitedFor) {
  std::function<bool()> unpin = [] { return false; };
  RuntimeSession session({.budget_units = 2, .wait_for_unpin = [&] { return unpin(); }});
  engine::LiveTensor* tensor = session.born(2);
  session.op(1, {tensor});
  ASSERT_TRUE(session.runtime().pin(tensor).ok());
  EXPECT_EQ(session.runtime().allocate(kUnitBytes).status().code(), ErrorCode::kOutOfMemory);
  unpin = [&] {
    session.runtime().unpin(tensor);
    return true;
  };
  engine::LiveTensor* other = session.born(1);
  EXPECT_EQ(tensor->residency, engine::Residency::kOffloaded);
  session.op(2, {other});
}

}  // namespace
}  // namespace teraio::runtime
