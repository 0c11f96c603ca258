// Memory that is short because somebody pins a tensor.
#include <gtest/gtest.h>

#include <functional>

#include "engine/fixture/runtime_session.h"

namespace teraio::engine {
namespace {

using testing::kUnitBytes;
using testing::RuntimeSession;

TEST(ShortMemory, TheEndOfAPinIsWaitedFor) {
  std::function<bool()> unpin = [] { return false; };
  RuntimeSession session({.budget_units = 2, .wait_for_unpin = [&] { return unpin(); }});
  LiveTensor* tensor = session.born(2);
  session.op(1, {tensor});
  ASSERT_TRUE(session.runtime().pin(tensor).ok());
  EXPECT_EQ(session.runtime().allocate(kUnitBytes).status().code(), ErrorCode::kOutOfMemory);
  unpin = [&] {
    session.runtime().unpin(tensor);
    return true;
  };
  LiveTensor* other = session.born(1);
  EXPECT_EQ(tensor->residency, Residency::kOffloaded);
  session.op(2, {other});
}

}  // namespace
}  // namespace teraio::engine
