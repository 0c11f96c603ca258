#include "runtime/training_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/fixture/known_drive.h"
#include "runtime/fixture/layered_program.h"
#include "runtime/fixture/scripted_framework.h"

namespace teraio::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::KnownDrive;
using testing::LayeredProgram;

class TrainingRunTest : public ::testing::Test {
 protected:
  Status open() {
    framework_ = owned_framework_.get();
    auto run = TrainingRun::open(options_, std::move(owned_framework_));
    if (!run.ok()) return run.status();
    run_ = std::move(*run);
    return {};
  }
  // Opens the run, and a program that needs more than its budget.
  void open_program(int layer_count = 6) {
    const Status opened = open();
    ASSERT_TRUE(opened.ok()) << opened.message();
    program_.emplace(*run_->runtime(), framework_->swap(), layer_count);
  }
  // As a session does.
  Status end() {
    TERAIO_RETURN_IF_ERROR(run_->prepare_stop());
    const Status status = run_->stop();
    run_->close();
    return status;
  }
  int64_t ssd_bytes_written() { return run_->tier_counters(plan::Tier::kSsd).bytes_written; }

  KnownDrive drive_;
  RunOptions options_ = drive_.options();
  std::unique_ptr<testing::ScriptedFramework> owned_framework_ =
      std::make_unique<testing::ScriptedFramework>();
  testing::ScriptedFramework* framework_ = owned_framework_.get();  // the run's, once it is open
  std::unique_ptr<TrainingRun> run_;
  std::optional<LayeredProgram> program_;  // its tensors go first
};

TEST_F(TrainingRunTest, TheDefaultBudgetIsTheDevices) {
  options_.device_budget_bytes = 0;
  framework_->default_budget = 16 * kMiB;
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(run_->options().device_budget_bytes, 16 * kMiB);
  EXPECT_EQ(run_->runtime()->figures().memory.budget_bytes, 16 * kMiB);
  EXPECT_EQ(run_->hardware().device_memory_bytes, 16 * kMiB);
}

TEST_F(TrainingRunTest, ADeviceWithoutADefaultNeedsABudget) {
  options_.device_budget_bytes = 0;
  EXPECT_EQ(open().message(), "a budget is needed");
}

TEST_F(TrainingRunTest, ADeviceThatIsNotThereEndsTheOpening) {
  framework_->device_failure = Status(ErrorCode::kUnsupported, "no such device");
  EXPECT_EQ(open().message(), "no such device");
}

TEST_F(TrainingRunTest, TheUserMayInterruptTheOpening) {
  options_.cache_directory = drive_.cache() / "empty";  // so that the drive is measured
  framework_->is_interrupted_while_opening = true;
  EXPECT_EQ(open().code(), ErrorCode::kInterrupted);
}

TEST_F(TrainingRunTest, OnlyAnotherDeviceThanTheCpuHasALink) {
  ASSERT_TRUE(open().ok());
  EXPECT_FALSE(run_->device_link().has_value());
}

TEST_F(TrainingRunTest, IterationsThatRepeatArePlannedAndPredicted) {
  open_program();
  EXPECT_EQ(run_->bound_ns(), 0);
  EXPECT_FALSE(run_->prediction().has_value());
  program_->steps(6);
  EXPECT_TRUE(run_->runtime()->figures().is_following_plan);
  ASSERT_TRUE(run_->prediction().has_value());
  EXPECT_EQ(run_->runtime()->figures().natural_peak_bytes, 12 * kMiB);
  EXPECT_LT(*run_->prediction()->limits.device_budget_bytes, 8 * kMiB);
  EXPECT_GT(run_->bound_ns(), 0);
  EXPECT_LE(run_->bound_ns(), run_->prediction()->step_ns);
  EXPECT_GT(ssd_bytes_written(), 0);
}

TEST_F(TrainingRunTest, WithoutPlansTensorsMoveOnDemand) {
  options_.is_planned = false;
  open_program();
  program_->steps(6);
  EXPECT_FALSE(run_->runtime()->figures().is_following_plan);
  EXPECT_FALSE(run_->prediction().has_value());
  EXPECT_GT(run_->runtime()->figures().counters.on_demand_offloads, 0);
}

TEST_F(TrainingRunTest, TheEndRestoresAllTensorsAndKeepsTheCounters) {
  open_program();
  program_->steps(4);
  const int64_t written_bytes = ssd_bytes_written();
  ASSERT_TRUE(end().ok());
  program_->expect_weights();
  EXPECT_EQ(run_->runtime()->figures().offloaded_bytes, 0);
  EXPECT_GE(ssd_bytes_written(), written_bytes);
  EXPECT_EQ(run_->tier_counters(plan::Tier::kHost).capacity_bytes, 0);
}

TEST_F(TrainingRunTest, TensorsMayOutliveTheRun) {
  open_program();
  program_->steps(4);
  ASSERT_TRUE(end().ok());
  const std::shared_ptr<Runtime> runtime = run_->runtime();  // as a tensor's handle has it
  run_.reset();
  program_->expect_weights();
  program_.reset();
  EXPECT_EQ(runtime->figures().memory.allocated_bytes, 0);
}

// The message names what the known iterations need.
TEST_F(TrainingRunTest, TensorsThatOutliveTheRunMayLackMemory) {
  open_program();
  program_->steps(4);
  run_->discard();
  run_->close();
  const std::shared_ptr<Runtime> runtime = run_->runtime();
  run_.reset();
  const Status status = runtime->allocate(int64_t{1} << 50).status();
  EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("iterations so far need a budget of"));
  program_.reset();
}

TEST_F(TrainingRunTest, AnEndWithoutMemoryForAllTensorsIsRefusedAndTheRunGoesOn) {
  options_.evict_after_every_op = true;
  open_program(20);  // more than the budget, which the device keeps
  program_->steps(1);
  framework_->available = kMiB;
  const Status refused = end();
  EXPECT_EQ(refused.code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(refused.message(), HasSubstr("and 1048576 bytes (1.05 MB) of memory are available"));
  program_->steps(1);
  EXPECT_EQ(run_->runtime()->figures().memory.budget_bytes, 8 * kMiB);
  framework_->available = 100 * kMiB;
  EXPECT_TRUE(end().ok());
  program_->expect_weights();
}

TEST_F(TrainingRunTest, AProcessThatExitsLeavesItsTensorsBehind) {
  options_.evict_after_every_op = true;
  open_program();
  program_->steps(1);
  run_->discard();
  run_->close();
  EXPECT_GT(run_->runtime()->figures().offloaded_bytes, 0);
}

TEST_F(TrainingRunTest, ATimelineThatIsNotRecordedCannotBeSaved) {
  ASSERT_TRUE(open().ok());
  const auto saved = run_->save_timeline(drive_.directory() / "timeline.json", "training");
  EXPECT_THAT(saved.status().message(), HasSubstr("expected the option timeline_steps"));
}

TEST_F(TrainingRunTest, ATimelineHasTheStepsThatWereAskedFor) {
  options_.timeline_steps = {2, 4};
  open_program();
  const std::filesystem::path path = drive_.directory() / "timeline.json";
  program_->steps(2);
  EXPECT_THAT(run_->save_timeline(path, "training").status().message(),
              HasSubstr("no op has run in the steps of the timeline"));
  EXPECT_FALSE(std::filesystem::exists(path));
  program_->steps(3);
  const auto saved = run_->save_timeline(path, "training");
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  EXPECT_THAT(*saved, ElementsAre(2, 3));
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace teraio::runtime
