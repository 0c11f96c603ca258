#include "engine/compute_points.h"

#include <gtest/gtest.h>

#include "testing/stepped_device.h"

namespace teraio::engine {
namespace {

using testing::Progress;
using testing::SteppedDevice;

class ComputePointsTest : public ::testing::Test {
 protected:
  // Enqueues an op, and waits as the program does.
  device::Event enqueue(int64_t duration_ns) {
    points_.begin_op();
    device_.launch([this] { ++done_count_; });
    const device::Event due = points_.end_op(duration_ns);
    while (!device_.has_passed(due)) device_.step();
    return due;
  }

  SteppedDevice device_{{.progress = Progress::kManual}};
  ComputePoints points_{device_};
  int done_count_ = 0;
};

TEST_F(ComputePointsTest, AShortWhileIsNotWaitedFor) {
  for (int op = 0; op < 299; ++op) EXPECT_EQ(enqueue(10'000).id, 0u) << op;
}

TEST_F(ComputePointsTest, WhatWasEnqueuedAFewMillisecondsAgoIsWaitedFor) {
  int waited_for = 0;
  for (int op = 1; op <= 100; ++op) {
    if (enqueue(500'000).id == 0) continue;
    ++waited_for;
    EXPECT_EQ(op - done_count_, 6) << "three milliseconds of ops are enqueued";
  }
  EXPECT_EQ(waited_for, 47);
}

TEST_F(ComputePointsTest, OneLongOpIsEnough) {
  for (int op = 1; op <= 10; ++op) {
    enqueue(50'000'000);
    EXPECT_EQ(done_count_, op - 1);
  }
}

TEST_F(ComputePointsTest, AfterAnOpIsBeforeThoseThatWereEnqueuedSince) {
  enqueue(2'000'000);
  const uint64_t used_by = points_.op();
  enqueue(2'000'000);
  points_.begin_op();
  const device::Event early = points_.after(used_by);
  const device::Event late = points_.after(points_.op());
  EXPECT_NE(early.id, 0u);
  while (!device_.has_passed(early)) device_.step();
  EXPECT_EQ(done_count_, 1);
  EXPECT_EQ(points_.after(used_by).id, 0u) << "it has passed";
  EXPECT_FALSE(device_.has_passed(late));
  while (!device_.has_passed(late)) device_.step();
  EXPECT_EQ(done_count_, 2);
}

TEST_F(ComputePointsTest, WhatTheProgramEnqueuesBetweenOpsCountsToTheOneBefore) {
  enqueue(2'000'000);
  device_.launch([this] { ++done_count_; });
  const device::Event after = points_.after(points_.op());
  while (!device_.has_passed(after)) device_.step();
  EXPECT_EQ(done_count_, 2);
}

TEST_F(ComputePointsTest, WhereNoPlanIsFollowedEverythingIsWaitedFor) {
  for (int op = 0; op < 3; ++op) {
    points_.begin_op();
    device_.launch([this] { ++done_count_; });
  }
  const device::Event after = points_.after(1);
  while (!device_.has_passed(after)) device_.step();
  EXPECT_EQ(done_count_, 3);
}

}  // namespace
}  // namespace teraio::engine
