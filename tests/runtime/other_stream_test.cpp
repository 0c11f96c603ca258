// Tensors that another stream of the device works on: they stay for as long as it does, and no
// longer. On a device with one order of work that is no time at all.
#include <gtest/gtest.h>

#include <thread>

#include "runtime/fixture/runtime_session.h"

namespace teraio::runtime {
namespace {

using testing::kUnitBytes;
using testing::RuntimeSession;
using testing::RuntimeSessionOptions;

class OtherStreamTest : public ::testing::Test {
 protected:
  void open(const RuntimeSessionOptions& options) {
    session_.emplace(options);
    stream_ = session_->other_stream();
  }

  // An op that changes `tensor` on the other stream.
  void op_elsewhere(engine::LiveTensor* tensor) {
    engine::OpFrame frame = RuntimeSession::frame({}, {tensor});
    ASSERT_TRUE(session_->runtime().begin_op(frame, 7).ok());
    session_->write_bytes_elsewhere(*tensor, stream_);
    session_->runtime().record_stream(stream_, frame.uses);
    session_->runtime().end_op(frame, "elsewhere", 7, {});
  }
  // Ends when the tensor has begun to leave, or never could.
  void run_ops_while_resident(const engine::LiveTensor* tensor) {
    for (int i = 0; tensor->residency == engine::Residency::kResident && i < 1'000'000; ++i) {
      session_->op(2, {});
      std::this_thread::yield();
    }
  }
  // Compute goes on after the other stream, as a program has to see to.
  void join() {
    device::Device& device = session_->device();
    ASSERT_TRUE(device.order_after(device.record_on(stream_)).ok());
  }
  engine::LiveTensor* used(int64_t units = 1) {
    engine::LiveTensor* tensor = session_->born(units);
    session_->op(1, {tensor});
    return tensor;
  }

  void* stream_ = nullptr;
  std::optional<RuntimeSession> session_;
};

TEST_F(OtherStreamTest, StaysForAsLongAsItIsAtWork) {
  open({.evict_after_every_op = true});
  engine::LiveTensor* tensor = used();
  ASSERT_EQ(tensor->residency, engine::Residency::kOffloaded);
  op_elsewhere(tensor);
  EXPECT_EQ(tensor->residency, engine::Residency::kResident);
  EXPECT_EQ(tensor->uses.pin_count, 1u);
  run_ops_while_resident(tensor);
  EXPECT_EQ(tensor->residency, engine::Residency::kOffloaded) << "it may move again";
  EXPECT_EQ(tensor->uses.pin_count, 0u);
  session_->op(3, {tensor});
}

// As record_stream tells it.
TEST_F(OtherStreamTest, WhatItChangesOutsideOfAnyOpIsWrittenOutAnew) {
  open({.evict_after_every_op = true});
  engine::LiveTensor* tensor = used();
  ASSERT_TRUE(session_->runtime().pin(tensor).ok());
  ASSERT_NE(tensor->valid_copy(), nullptr);
  session_->write_bytes_elsewhere(*tensor, stream_);
  const engine::Use use = {tensor, true};
  session_->runtime().record_stream(stream_, std::span(&use, 1));
  session_->runtime().unpin(tensor);
  run_ops_while_resident(tensor);
  EXPECT_EQ(tensor->residency, engine::Residency::kOffloaded);
  session_->op(3, {tensor});
}

TEST_F(OtherStreamTest, IsNotMovedWhileItIsAtWork) {
  open({.budget_units = 4, .evict_after_every_op = true});
  std::vector<engine::LiveTensor*> tensors;
  for (int i = 0; i < 3; ++i) tensors.push_back(used());
  for (int round = 0; round < 30; ++round) {
    op_elsewhere(tensors[round % 3]);
    join();
    session_->op(2, {tensors[(round + 1) % 3]}, {tensors[(round + 2) % 3]});
  }
}

TEST_F(OtherStreamTest, ItsEndIsWaitedForWhereMemoryIsShort) {
  open({.budget_units = 2});
  engine::LiveTensor* tensor = used(2);
  op_elsewhere(tensor);
  engine::LiveTensor* other = session_->born(1);
  EXPECT_EQ(tensor->residency, engine::Residency::kOffloaded);
  session_->op(2, {other});
  session_->die(other);
  op_elsewhere(tensor);
  engine::LiveTensor* needed = session_->born(1);
  session_->op(3, {needed});
  op_elsewhere(needed);
  session_->op(4, {tensor});
}

TEST_F(OtherStreamTest, MemoryOfADroppedOneIsFreeOnlyAfterIt) {
  open({.budget_units = 1});
  engine::LiveTensor* tensor = used();
  op_elsewhere(tensor);
  session_->die(tensor);
  EXPECT_EQ(session_->device().allocated_bytes(), kUnitBytes);
  session_->op(2, {session_->born(1)});
}

TEST_F(OtherStreamTest, TheEndOfTheRunWaitsForIt) {
  open({});
  engine::LiveTensor* tensor = used();
  op_elsewhere(tensor);
  ASSERT_TRUE(session_->runtime().stop().ok());
  EXPECT_EQ(tensor->uses.pin_count, 0u);
}

}  // namespace
}  // namespace teraio::runtime
