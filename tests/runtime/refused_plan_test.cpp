// Plans that the engine cannot execute.
#include <gtest/gtest.h>

#include "runtime/fixture/runtime_session.h"
#include "runtime/runtime.h"

namespace teraio::runtime {
namespace {

using testing::RuntimeSession;
using testing::Trainee;

TEST(RefusedPlan, OneThatRecomputesInARunThatDoesNot) {
  RuntimeSession session({.make_plan = [](const iteration::Profile& profile) -> Result<plan::Plan> {
    return plan::Plan{profile.trace.name, {{0, plan::Action::kDiscard, 1, 1}}};
  }});
  Trainee trainee(session, 4);
  trainee.steps(4);
  EXPECT_NE(
      session.runtime().knowledge().planning_status.message().find("made with --recompute off"),
      std::string::npos);
  EXPECT_EQ(session.runtime().knowledge().plan, std::nullopt);
}

}  // namespace
}  // namespace teraio::runtime
