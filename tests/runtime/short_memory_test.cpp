// Memory that is short because somebody pins a tensor.
#include <gtest/gtest.h>

#include <functional>

#include "runtime/fixture/runtime_session.h"

namespace teraio::runtime {
namespace {

using testing::kUnitBytes;
using testing::RuntimeSession;

TEST(ShortMemory, TheEndOfAPinIsWaitedFor) {
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
