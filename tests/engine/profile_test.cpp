#include "engine/profile.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/fixture/planned_program.h"

namespace teraio {
namespace {

using testing::PlannedProgram;

// A gradient that is used for the last time at op 1 and freed `delay` ops later.
PlannedProgram program_with_gradient(int delay) {
  PlannedProgram program;
  const TensorIndex gradient = program.born(1);
  program.op({}, {gradient});
  program.op({gradient});
  program.idle_ops(delay - 1);
  program.op({}, {}, {gradient});
  return program;
}

TEST(Profile, WhatIsFreedLongAfterItsLastUseLingers) {
  EXPECT_EQ(program_with_gradient(17).profile.lingering(), std::vector<TensorIndex>{0});
}

TEST(Profile, AnOrdinaryDelayIsNotLingering) {
  EXPECT_TRUE(program_with_gradient(16).profile.lingering().empty());
}

TEST(Profile, ATensorThatNoOpFreesDoesNotLinger) {
  PlannedProgram program;
  program.op({}, {program.born(1)});
  program.idle_ops(40);
  EXPECT_TRUE(program.profile.lingering().empty());
}

TEST(Profile, LingeringTensorsAreFreedAfterTheirLastUse) {
  PlannedProgram program = program_with_gradient(30);
  const TensorIndex other = program.born(1);
  program.op({}, {other}, {other});
  const Profile changed = program.profile.with_lingering_freed();
  EXPECT_TRUE(changed.lingering().empty());
  for (const Op& op : changed.trace.ops)
    for (const TensorIndex freed : op.frees) EXPECT_EQ(freed, other) << "frees of others stay";
  EXPECT_EQ(changed.trace.ops.back().frees, std::vector<TensorIndex>{other});
  EXPECT_EQ(changed.signatures, program.profile.signatures) << "it is recognised as before";
}

}  // namespace
}  // namespace teraio
