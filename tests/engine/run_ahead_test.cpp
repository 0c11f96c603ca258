#include "engine/run_ahead.h"

#include <gtest/gtest.h>

#include "testing/fake_async_device.h"

namespace teraio::engine {
namespace {

using testing::FakeAsyncDevice;
using testing::Progress;

TEST(RunAheadTest, AShortWhileIsNotWaitedFor) {
  FakeAsyncDevice device({.progress = Progress::kManual});
  RunAhead run_ahead(device);
  for (int op = 0; op < 300; ++op) EXPECT_EQ(run_ahead.add_op(10'000).id, 0u) << op;
}

TEST(RunAheadTest, WhatWasEnqueuedAFewMillisecondsAgoIsWaitedFor) {
  FakeAsyncDevice device({.progress = Progress::kManual});
  RunAhead run_ahead(device);
  int done_count = 0;
  int waited_for = 0;
  for (int op = 1; op <= 100; ++op) {
    device.launch({{}, {}, [&] { ++done_count; }});
    const device::Event due = run_ahead.add_op(500'000);
    while (!device.has_passed(due)) device.step();
    if (due.id == 0) continue;
    ++waited_for;
    EXPECT_EQ(op - done_count, 6) << "three milliseconds of ops are enqueued";
  }
  EXPECT_EQ(waited_for, 47);
}

TEST(RunAheadTest, OneLongOpIsEnough) {
  FakeAsyncDevice device({.progress = Progress::kManual});
  RunAhead run_ahead(device);
  int done_count = 0;
  for (int op = 1; op <= 10; ++op) {
    device.launch({{}, {}, [&] { ++done_count; }});
    const device::Event due = run_ahead.add_op(50'000'000);
    while (!device.has_passed(due)) device.step();
    EXPECT_EQ(done_count, op - 1);
  }
}

}  // namespace
}  // namespace teraio::engine
