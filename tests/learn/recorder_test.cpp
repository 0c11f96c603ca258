#include "learn/recorder.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "iteration/signature.h"

namespace teraio::learn {
namespace {

using Indices = std::vector<trace::TensorIndex>;

class RecorderTest : public ::testing::Test {
 protected:
  RecorderTest() { start(); }

  void start() { recorder_.start(last_id_ + 1); }

  engine::LiveTensor* born(int64_t size_bytes = 100) {
    engine::LiveTensor* tensor =
        tensors_.emplace_back(std::make_unique<engine::LiveTensor>()).get();
    tensor->id = ++last_id_;
    tensor->size_bytes = size_bytes;
    alive_.push_back(tensor);
    return tensor;
  }
  void die(engine::LiveTensor* tensor) {
    recorder_.record_death(*tensor);
    std::erase(alive_, tensor);
  }

  void op(uint64_t signature, const std::vector<engine::Use>& uses,
          const std::vector<engine::LiveTensor*>& births = {}) {
    OpRecord record;
    record.name = "op";
    record.signature = signature;
    record.uses = uses;
    record.input_count = uses.size();
    record.births = births;
    record.duration_ns = duration_ns_;
    record.workspace_bytes = workspace_bytes_;
    recorder_.record_op(record);
  }

  iteration::Profile finish() {
    return recorder_.finish(
        alive_, [](const engine::LiveTensor& tensor) { return tensor.owner != nullptr; });
  }

  Recorder recorder_;
  std::vector<engine::LiveTensor*> alive_;
  int64_t duration_ns_ = 10;
  int64_t workspace_bytes_ = 0;

 private:
  std::vector<std::unique_ptr<engine::LiveTensor>> tensors_;
  uint64_t last_id_ = 0;
};

TEST_F(RecorderTest, RecordsReadsAndWritesInTheOrderOfTheArguments) {
  engine::LiveTensor* a = born();
  engine::LiveTensor* b = born();
  start();
  op(1, {{b, true}, {a, false}});
  const iteration::Profile profile = finish();
  ASSERT_EQ(profile.op_count(), 1);
  EXPECT_EQ(profile.touches[0], (Indices{0, 1}));
  EXPECT_EQ(profile.trace.tensors[0].id, static_cast<int64_t>(b->id));
  EXPECT_EQ(profile.trace.ops[0].writes, Indices{0});
  EXPECT_EQ(profile.trace.ops[0].reads, Indices{1});
  const std::vector<engine::Use> inputs = {{b}, {a}};
  EXPECT_EQ(profile.signatures, std::vector<iteration::OpSignature>{structure_of(1, inputs)});
  EXPECT_NE(profile.signatures[0].structure, 1u) << "it names the tensors that outlive it";
}

TEST_F(RecorderTest, ABirthIsWrittenByTheOpButNotAmongItsTouches) {
  engine::LiveTensor* result = born(100);
  engine::LiveTensor* hidden = born(200);
  op(1, {{result, true}}, {result, hidden});
  const iteration::Profile profile = finish();
  EXPECT_EQ(profile.trace.ops[0].writes, (Indices{0, 1})) << "a result counts once";
  EXPECT_EQ(profile.touches[0], Indices{0}) << "the hooks do not name the other";
  EXPECT_EQ(profile.births.at(0), Indices{1});
  EXPECT_EQ(profile.trace.tensors[1].size_bytes, 200);
}

TEST_F(RecorderTest, WhatOpsInsideTheOpUseCountsOnceAndIsNoneOfItsTouches) {
  engine::LiveTensor* argument = born();
  engine::LiveTensor* cached = born();
  engine::LiveTensor* counter = born();
  start();
  OpRecord record;
  const std::vector<engine::Use> uses = {{argument, false}};
  const std::vector<engine::Use> nested_uses = {
      {cached, false}, {counter, false}, {argument, true}, {counter, true}};
  record.uses = uses;
  record.nested_uses = nested_uses;
  recorder_.record_op(record);
  const iteration::Profile profile = finish();
  EXPECT_EQ(profile.touches[0], Indices{0});
  EXPECT_EQ(profile.trace.ops[0].reads, (Indices{0, 1}));
  EXPECT_EQ(profile.trace.ops[0].writes, Indices{2});
}

TEST_F(RecorderTest, ADeathIsAFreeOfTheOpBefore) {
  engine::LiveTensor* a = born();
  op(1, {{a, true}}, {a});
  op(2, {{a, false}});
  die(a);
  op(3, {});
  const iteration::Profile profile = finish();
  EXPECT_TRUE(profile.trace.ops[0].frees.empty());
  EXPECT_EQ(profile.trace.ops[1].frees, Indices{0});
  EXPECT_TRUE(profile.trace.ops[2].frees.empty());
}

TEST_F(RecorderTest, DeathsBetweenOpsKeepTheirOps) {
  engine::LiveTensor* a = born();
  engine::LiveTensor* b = born();
  op(1, {{a, true}, {b, true}}, {a, b});
  die(a);
  die(b);
  engine::LiveTensor* c = born();
  op(2, {{c, true}}, {c});
  die(c);
  const iteration::Profile profile = finish();
  EXPECT_EQ(profile.trace.ops[0].frees, (Indices{0, 1}));
  EXPECT_EQ(profile.trace.ops[1].writes, Indices{2});
  EXPECT_EQ(profile.trace.ops[1].frees, Indices{2});
}

TEST_F(RecorderTest, ADeathOfWhatNoOpTouchedIsNothing) {
  engine::LiveTensor* unseen = born();
  die(unseen);
  op(1, {});
  die(born());
  const iteration::Profile profile = finish();
  EXPECT_TRUE(profile.trace.tensors.empty());
  EXPECT_TRUE(profile.trace.ops[0].frees.empty());
}

TEST_F(RecorderTest, WhatLivedBeforeAndStillLivesIsPersistent) {
  engine::LiveTensor* old = born();
  engine::LiveTensor* leaving = born();
  start();
  engine::LiveTensor* young = born();
  op(1, {{old, false}, {leaving, false}, {young, true}}, {young});
  die(leaving);
  op(2, {});
  const iteration::Profile profile = finish();
  EXPECT_TRUE(profile.trace.tensors[0].persistent);
  EXPECT_FALSE(profile.trace.tensors[1].persistent) << "it does not live on";
  EXPECT_FALSE(profile.trace.tensors[2].persistent) << "it did not live before";
  EXPECT_EQ(profile.trace.ops[0].frees, Indices{1});
  EXPECT_EQ(profile.trace.ops[1].frees, Indices{2}) << "the last op frees what is left";
}

// A stream may use it for long after the iteration, in this one and not in the next.
TEST_F(RecorderTest, WhatTheProgramHasDroppedIsNotPersistent) {
  engine::LiveTensor* used = born();
  engine::LiveTensor* untouched = born();
  start();
  op(1, {{used}});
  used->life = untouched->life = engine::Life::kDroppedInUse;
  const iteration::Profile profile = finish();
  EXPECT_FALSE(profile.trace.tensors[0].persistent);
  EXPECT_EQ(profile.trace.ops[0].frees, Indices{0});
  EXPECT_EQ(used->record.persistence, engine::RecordState::Persistence::kNone);
  EXPECT_EQ(profile.signatures[0].structure, 1u);
  EXPECT_EQ(profile.untouched_bytes, 0);
}

TEST_F(RecorderTest, CountsWhatNoOpTouched) {
  born(1000);
  engine::LiveTensor* used = born(10);
  start();
  born(7);  // new: it is not there during the whole iteration
  op(1, {{used, false}});
  EXPECT_EQ(finish().untouched_bytes, 1000);
}

TEST_F(RecorderTest, KeepsDurationAndWorkspaceAndNothingNegative) {
  duration_ns_ = 123;
  workspace_bytes_ = 456;
  op(1, {});
  duration_ns_ = -5;
  workspace_bytes_ = -6;
  op(2, {});
  const iteration::Profile profile = finish();
  EXPECT_EQ(profile.trace.ops[0].duration_ns, 123);
  EXPECT_EQ(profile.trace.ops[0].workspace_bytes, 456);
  EXPECT_EQ(profile.trace.ops[1].duration_ns, 0);
  EXPECT_EQ(profile.trace.ops[1].workspace_bytes, 0);
}

TEST_F(RecorderTest, WhatAReplayHasByValueIsTouchedAndNotRead) {
  engine::LiveTensor* kept = born();
  start();
  engine::LiveTensor* number = born();
  OpRecord record;
  const std::vector<engine::Use> uses = {{kept, false}, {number, false}};
  const std::vector<engine::LiveTensor*> replay_inputs = {kept};
  record.uses = uses;
  record.is_replayable = true;
  record.replay_inputs = replay_inputs;
  recorder_.record_op(record);
  die(number);
  const iteration::Profile profile = finish();
  EXPECT_TRUE(profile.trace.ops[0].replayable);
  EXPECT_EQ(profile.trace.ops[0].reads, (Indices{0}));
  EXPECT_EQ(profile.touches[0], (Indices{0, 1}));
  EXPECT_TRUE(profile.trace.ops[0].frees.empty()) << "no op of the trace uses it";
}

TEST_F(RecorderTest, DescriptionsOutliveTheRecordingButNotTheTensor) {
  engine::LiveTensor* weight = born();
  engine::LiveTensor* other = born();
  recorder_.describe(*weight, trace::TensorKind::kParameter, "layer.weight");
  recorder_.describe(*weight, trace::TensorKind::kParameter, "");  // does not unname it
  recorder_.describe(*other, trace::TensorKind::kGradient, "gone");
  start();
  op(1, {{weight, false}, {other, false}});
  die(other);
  const iteration::Profile profile = finish();
  EXPECT_EQ(profile.trace.tensors[0].kind, trace::TensorKind::kParameter);
  EXPECT_EQ(profile.trace.tensors[0].name, "layer.weight");
  EXPECT_EQ(profile.trace.tensors[1].kind, trace::TensorKind::kActivation);
  EXPECT_EQ(profile.trace.tensors[1].name, "");
}

TEST_F(RecorderTest, StartForgets) {
  engine::LiveTensor* a = born();
  op(1, {{a, false}});
  start();
  EXPECT_EQ(recorder_.op_count(), 0);
  op(2, {});
  const iteration::Profile profile = finish();
  EXPECT_EQ(profile.op_count(), 1);
  EXPECT_TRUE(profile.trace.tensors.empty());
}

}  // namespace
}  // namespace teraio::learn
