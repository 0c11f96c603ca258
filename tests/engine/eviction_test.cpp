// What leaves when memory is short and nothing planned has freed it.
#include <gtest/gtest.h>

#include "engine/fixture/engine_session.h"

namespace teraio::engine {
namespace {

using testing::EngineSession;
using testing::kUnitBytes;
using testing::PlannedProgram;
using testing::Tensors;

TEST(Eviction, TheOldestLeavesWithoutAProfile) {
  EngineSession session({.budget_units = 4});
  const Tensors t = session.tensors(4);
  ASSERT_TRUE(session.use({t[0]}).ok());
  session.born();
  EXPECT_EQ(t[1]->residency, Residency::kOffloaded);
  EXPECT_EQ(t[0]->residency, Residency::kResident) << "used after it";
  EXPECT_EQ(t[2]->residency, Residency::kResident);
  EXPECT_EQ(session.counters().on_demand_offloads, 1);
}

TEST(Eviction, TheFarthestNextUseLeavesWithAProfile) {
  EngineSession session({.budget_units = 3});
  const Tensors t = session.tensors(3);
  PlannedProgram program;
  const trace::TensorIndex soon = program.persistent(*t[0]);
  const trace::TensorIndex late = program.persistent(*t[1]);
  const trace::TensorIndex next = program.persistent(*t[2]);
  program.op({soon});
  program.op({next});
  program.op({soon});
  program.op({late});
  session.engine().plan().follow(program.shared_schedule());
  ASSERT_TRUE(session.op(0, {t[0]}).ok());
  session.born();
  EXPECT_EQ(t[1]->residency, Residency::kOffloaded);
  EXPECT_EQ(t[0]->residency, Residency::kResident);
  EXPECT_EQ(t[2]->residency, Residency::kResident);
}

TEST(Eviction, WhatTheProfileDoesNotKnowLeavesFirst) {
  EngineSession session({.budget_units = 2});
  const Tensors t = session.tensors(2);
  PlannedProgram program;
  const trace::TensorIndex known = program.persistent(*t[0]);
  program.op({});
  program.op({known});
  session.engine().plan().follow(program.shared_schedule());
  ASSERT_TRUE(session.op(0, {}).ok());
  session.born();
  EXPECT_EQ(t[1]->residency, Residency::kOffloaded);
}

TEST(Eviction, ACleanCopyIsDroppedWithoutAWrite) {
  EngineSession session({.budget_units = 2});
  LiveTensor* a = session.tensor();
  session.send_everything_away();
  ASSERT_TRUE(session.use({a}).ok());
  const int64_t written_bytes = session.ssd().counters().bytes_written;
  session.born(2);
  EXPECT_EQ(a->residency, Residency::kOffloaded);
  EXPECT_EQ(session.ssd().counters().bytes_written, written_bytes);
  EXPECT_EQ(session.counters().on_demand_drops, 1);
}

TEST(Eviction, AWrittenTensorIsWrittenOutAgain) {
  EngineSession session({.budget_units = 2});
  LiveTensor* a = session.tensor();
  session.send_everything_away();
  ASSERT_TRUE(session.write({a}).ok());
  EXPECT_EQ(a->valid_copy(), nullptr);
  LiveTensor* large = session.born(2);
  EXPECT_EQ(a->residency, Residency::kOffloaded);
  session.die(large);
  EXPECT_TRUE(session.use({a}).ok());
  EXPECT_EQ(session.ssd().counters().bytes_written, 2 * kUnitBytes);
}

TEST(Eviction, NoMoreLeavesThanIsMissing) {
  EngineSession session({.budget_units = 12});
  session.tensors(11);
  session.born(6);
  EXPECT_EQ(session.counters().on_demand_offloads, 5) << "one unit was free";
}

TEST(Eviction, WhatIsLeavingAlreadyCounts) {
  EngineSession session({.budget_units = 4});
  const Tensors t = session.tensors(4);
  PlannedProgram program;
  const trace::TensorIndex first = program.persistent(*t[0]);
  const trace::TensorIndex second = program.persistent(*t[1]);
  program.idle_ops(9);
  program.offload(first, 0);
  program.offload(second, 0);
  session.engine().plan().follow(program.shared_schedule());
  ASSERT_TRUE(session.op(0, {}).ok());
  session.born(2);
  EXPECT_EQ(session.counters().on_demand_offloads, 0);
}

TEST(Eviction, WhatAnOpUsesStays) {
  EngineSession session({.budget_units = 2});
  const Tensors t = session.tensors(2);
  ASSERT_TRUE(session.begin(iteration::kLost, t).ok());
  EXPECT_EQ(session.try_born(kUnitBytes).status().code(), ErrorCode::kOutOfMemory);
  session.end(iteration::kLost, t);
  EXPECT_TRUE(session.try_born(kUnitBytes).ok());
}

TEST(Eviction, WhatHasNotBeenUsedStays) {
  EngineSession session({.budget_units = 2});
  LiveTensor* fresh = session.born();
  LiveTensor* used = session.tensor();
  session.born();
  EXPECT_EQ(fresh->residency, Residency::kResident) << "its bytes may not be complete";
  EXPECT_EQ(used->residency, Residency::kOffloaded);
}

TEST(Eviction, SmallTensorsStay) {
  EngineSession session({.budget_units = 4});
  LiveTensor* small = *session.try_born(kUnitBytes / 2);
  ASSERT_TRUE(session.use({small}).ok());
  EXPECT_FALSE(session.engine().can_leave(*small));
  const Tensors large = session.tensors(3);
  session.born(3);
  EXPECT_EQ(small->residency, Residency::kResident);
  session.expect_bytes(*small);
}

TEST(Eviction, AnotherLeavesInPlaceOfWhatItsOwnerKeeps) {
  EngineSession session({.budget_units = 3});
  const Tensors t = session.tensors(3);
  session.send_everything_away();
  ASSERT_TRUE(session.use(t).ok());
  session.swap().keep(*t[0]);
  session.born();
  EXPECT_EQ(t[0]->residency, Residency::kResident);
  EXPECT_EQ(t[1]->residency, Residency::kOffloaded) << "the next oldest";
}

TEST(Eviction, ACleanOneLeavesWhenTheOldestCannotBeWritten) {
  EngineSession session({.budget_units = 2, .ssd_units = 1});
  LiveTensor* clean = session.tensor();
  session.send_everything_away();
  LiveTensor* dirty = session.tensor();
  ASSERT_TRUE(session.use({dirty}).ok());
  ASSERT_TRUE(session.use({clean}).ok());  // the dirty one is older, and the tier is full
  ASSERT_TRUE(session.try_born(kUnitBytes).ok());
  EXPECT_EQ(clean->residency, Residency::kOffloaded);
  EXPECT_EQ(dirty->residency, Residency::kResident);
}

TEST(Eviction, TheHostTierComesFirstAndTheDrivesWhenItIsFull) {
  EngineSession session({.budget_units = 3, .host_units = 1});
  const Tensors t = session.tensors(3);
  session.born(2);
  EXPECT_EQ(session.host().counters().bytes_written, kUnitBytes);
  EXPECT_EQ(session.ssd().counters().bytes_written, kUnitBytes);
  EXPECT_TRUE(t[0]->copy(plan::Tier::kHost).is_valid);
  EXPECT_TRUE(t[1]->copy(plan::Tier::kSsd).is_valid);
}

TEST(Eviction, BytesAwayAreThoseOut) {
  EngineSession session({.budget_units = 4});
  const Tensors t = session.tensors(3);
  session.send_everything_away();
  EXPECT_EQ(session.engine().amounts().offloaded_bytes, 3 * kUnitBytes);
  ASSERT_TRUE(session.use({t[0]}).ok());
  EXPECT_EQ(session.engine().amounts().offloaded_bytes, 2 * kUnitBytes);
  session.die(t[1]);
  EXPECT_EQ(session.engine().amounts().offloaded_bytes, kUnitBytes);
}

TEST(Eviction, UnmovableBytesAreThoseThatCannotLeave) {
  EngineSession session({.budget_units = 8});
  session.tensor();
  session.born();
  LiveTensor* held = session.tensor(2);
  ASSERT_TRUE(session.engine().pin(held).ok());
  EXPECT_EQ(session.engine().unmovable_bytes(), 3 * kUnitBytes);
  session.engine().unpin(held);
  EXPECT_EQ(session.engine().unmovable_bytes(), kUnitBytes);
}

TEST(Eviction, TheMessageSaysWhichBudgetTheOpNeeds) {
  EngineSession session({.budget_units = 4});
  session.born(3);
  const Status status = session.try_born(2 * kUnitBytes).status();
  EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
  EXPECT_NE(status.message().find(format_size(2 * kUnitBytes)), std::string::npos) << "asked for";
  EXPECT_NE(status.message().find(format_size(4 * kUnitBytes)), std::string::npos) << "budget";
  EXPECT_NE(status.message().find(format_size(5 * kUnitBytes)), std::string::npos) << "needs";
  session.device().set_budget_bytes(5 * kUnitBytes);
  EXPECT_TRUE(session.try_born(2 * kUnitBytes).ok());
}

}  // namespace
}  // namespace teraio::engine
