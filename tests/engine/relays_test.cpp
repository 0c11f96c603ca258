// Tensors that a plan sends on from host memory to the drives.
#include <gtest/gtest.h>

#include "engine/fixture/engine_session.h"

namespace teraio::engine {
namespace {

using testing::EngineSession;
using testing::PlannedProgram;

// It is written by op 0, rests in host memory from op 1 on, and passes the device to the drives.
PlannedProgram relay_program(const LiveTensor& tensor) {
  PlannedProgram program;
  const trace::TensorIndex known = program.persistent(tensor);
  program.op({}, {known});
  program.idle_ops(4);
  program.op({known});
  program.offload(known, 1, plan::Tier::kHost);
  program.prefetch(known, 2, 3);
  program.offload(known, 3, plan::Tier::kSsd);
  return program;
}

// The parameter: whether it is still being written to host memory when its read is due.
class OffloadRelayTest : public ::testing::TestWithParam<bool> {};

TEST_P(OffloadRelayTest, APlanChangesTheTierBetweenUses) {
  EngineSession session({.budget_units = 4, .host_units = 1});
  LiveTensor* a = session.tensor();
  session.engine().plan().follow(relay_program(*a).shared_schedule());
  ASSERT_TRUE(session.op(0, {}, {a}).ok());
  ASSERT_TRUE(session.op(1, {}).ok());
  if (!GetParam()) session.let_all_end();
  ASSERT_TRUE(session.op(2, {}).ok());
  ASSERT_TRUE(session.op(3, {}).ok());
  EXPECT_EQ(a->residency, GetParam() ? Residency::kOffloading : Residency::kLoading);
  session.let_all_end();
  EXPECT_EQ(a->residency, Residency::kOffloading);
  EXPECT_EQ(a->transfer.tier, plan::Tier::kSsd) << "as soon as it is there";
  EXPECT_EQ(session.host().counters().reserved_bytes, 0);
  session.let_all_end();
  ASSERT_TRUE(session.op(4, {}).ok());
  EXPECT_EQ(a->residency, Residency::kOffloaded);
  EXPECT_TRUE(a->copy(plan::Tier::kSsd).is_valid);
  ASSERT_TRUE(session.op(5, {a}).ok());
  EXPECT_EQ(session.counters().skipped_migrations, 0);
}

INSTANTIATE_TEST_SUITE_P(OffloadRelay, OffloadRelayTest, ::testing::Bool());

}  // namespace
}  // namespace teraio::engine
