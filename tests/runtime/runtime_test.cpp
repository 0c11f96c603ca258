#include "runtime/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "planner/planner.h"
#include "runtime/fixture/runtime_session.h"
#include "testing/forwarding_device.h"

namespace teraio::runtime {
namespace {

using testing::kUnitBytes;
using testing::RuntimeSession;
using testing::RuntimeSessionOptions;
using testing::Tensors;
using testing::Trainee;
using Mode = engine::IterationRecord::Mode;

constexpr int kLayers = 4;

class RuntimeTest : public ::testing::Test {
 protected:
  void open(RuntimeSessionOptions options = {}, int layers = kLayers) {
    if (!options.make_plan)
      options.make_plan = [this](const iteration::Profile& p) { return plan(p); };
    session_.emplace(options);
    trainee_.emplace(*session_, layers);
  }

  // The first weight is away between its forward and its backward op.
  Result<plan::Plan> plan(const iteration::Profile& profile) {
    planned_.push_back(profile);
    if (!planning_failure_.ok()) return planning_failure_;
    return away_between(profile, *trainee_->weights[0], 1, 2 * kLayers - 3);
  }
  static plan::Plan away_between(const iteration::Profile& profile,
                                 const engine::LiveTensor& tensor, trace::OpIndex offload,
                                 trace::OpIndex prefetch) {
    const auto& tensors = profile.trace.tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].id != static_cast<int64_t>(tensor.id)) continue;
      const auto index = static_cast<trace::TensorIndex>(i);
      return {"",
              {{index, plan::Action::kOffload, offload, offload + 1, plan::Tier::kSsd},
               {index, plan::Action::kPrefetch, prefetch, prefetch + 2, plan::Tier::kSsd}}};
    }
    return {};
  }

  std::vector<Mode> modes() {
    std::vector<Mode> modes;
    for (const engine::IterationRecord& record : runtime().iterations())
      modes.push_back(record.mode);
    return modes;
  }
  Runtime& runtime() { return session_->runtime(); }

  std::vector<iteration::Profile> planned_;
  Status planning_failure_;
  std::optional<RuntimeSession> session_;
  std::optional<Trainee> trainee_;
};

TEST_F(RuntimeTest, TwoEqualIterationsMakeAPlan) {
  open();
  trainee_->step();
  EXPECT_TRUE(planned_.empty());
  trainee_->step();
  ASSERT_EQ(planned_.size(), 1u);
  EXPECT_EQ(planned_[0].op_count(), trainee_->ops_per_step());
  EXPECT_TRUE(runtime().figures().is_following_plan);
  EXPECT_TRUE(runtime().knowledge().plan.has_value());
  trainee_->step();
  EXPECT_EQ(modes().back(), Mode::kPlanned);
  EXPECT_EQ(runtime().figures().counters.planned_offloads, 1);
  EXPECT_EQ(runtime().figures().counters.planned_prefetches, 1);
  EXPECT_EQ(runtime().figures().counters.urgent_reads, 0);
}

TEST_F(RuntimeTest, RefinesThePlanOnce) {
  open();
  trainee_->steps(12);
  EXPECT_EQ(planned_.size(), 2u);
  EXPECT_EQ(planned_[0].signatures, planned_[1].signatures);
  EXPECT_EQ(runtime().figures().deviation_count, 0);
}

TEST_F(RuntimeTest, PlansAnewWhenTheMachineChanges) {
  std::optional<std::string> change;
  RuntimeSessionOptions options;
  options.machine_change = [&] { return std::exchange(change, std::nullopt); };
  open(std::move(options));
  trainee_->steps(8);
  const size_t plan_count = planned_.size();
  change = "a drive is slower";
  trainee_->step();
  EXPECT_EQ(planned_.size(), plan_count + 1);
  trainee_->steps(4);
  EXPECT_EQ(planned_.size(), plan_count + 1) << "once for each change";
  EXPECT_EQ(modes().back(), Mode::kPlanned);
}

TEST_F(RuntimeTest, DeviatesAndReturns) {
  open();
  trainee_->steps(5);
  const size_t plan_count = planned_.size();
  trainee_->extra_op = 77;
  trainee_->step();
  EXPECT_EQ(modes().back(), Mode::kDeviated);
  EXPECT_EQ(runtime().figures().deviation_count, 1);
  trainee_->extra_op = 0;
  trainee_->steps(2);
  EXPECT_EQ(modes().back(), Mode::kPlanned);
  EXPECT_EQ(planned_.size(), plan_count) << "the old plan still holds";
}

TEST_F(RuntimeTest, APatternThatStaysIsPlannedAnew) {
  open();
  trainee_->steps(5);
  const size_t plan_count = planned_.size();
  trainee_->extra_op = 77;
  trainee_->steps(3);
  EXPECT_EQ(modes().back(), Mode::kPlanned);
  ASSERT_EQ(planned_.size(), plan_count + 1);
  EXPECT_EQ(planned_.back().op_count(), trainee_->ops_per_step() + 1);
}

TEST_F(RuntimeTest, StepsThatTakeTurnsAreOneIteration) {
  open();
  for (int i = 0; i < 12; ++i) trainee_->step(static_cast<uint64_t>(i % 3));
  ASSERT_FALSE(planned_.empty());
  EXPECT_EQ(planned_[0].op_count(), 3 * trainee_->ops_per_step());
  for (int i = 0; i < 3; ++i) trainee_->step(static_cast<uint64_t>(i % 3));
  EXPECT_EQ(modes().back(), Mode::kPlanned);
  EXPECT_EQ(runtime().iterations().back().op_count, 3 * trainee_->ops_per_step());
}

TEST_F(RuntimeTest, EqualStepsAfterStepsThatTookTurnsArePlannedAnew) {
  open();
  for (int i = 0; i < 12; ++i) trainee_->step(static_cast<uint64_t>(i % 2));
  trainee_->steps(10);
  EXPECT_EQ(planned_.back().op_count(), trainee_->ops_per_step());
  EXPECT_EQ(modes().back(), Mode::kPlanned);
}

TEST_F(RuntimeTest, UpdatesDivideStepsWhereNobodyTells) {
  open();
  trainee_->has_step_hook = false;
  trainee_->steps(6);
  ASSERT_FALSE(planned_.empty());
  EXPECT_EQ(planned_[0].op_count(), trainee_->ops_per_step());
  EXPECT_TRUE(runtime().figures().is_following_plan);
}

TEST_F(RuntimeTest, WithoutAPlanItGoesOnOnDemandAndSaysWhy) {
  open({.budget_units = 7});
  planning_failure_ = Status(ErrorCode::kInvalidArgument, "no such thing");
  trainee_->steps(6);
  EXPECT_EQ(runtime().knowledge().planning_status, planning_failure_);
  EXPECT_FALSE(runtime().figures().is_following_plan);
  EXPECT_EQ(runtime().knowledge().plan, std::nullopt);
  EXPECT_EQ(modes().back(), Mode::kOnDemand);
  EXPECT_GT(runtime().figures().counters.on_demand_offloads, 0);
}

TEST_F(RuntimeTest, APlanThatRecomputesIsRefusedInARunThatDoesNot) {
  open({.make_plan = [](const iteration::Profile& profile) -> Result<plan::Plan> {
    return plan::Plan{profile.trace.name, {{0, plan::Action::kDiscard, 1, 1}}};
  }});
  trainee_->steps(4);
  EXPECT_THAT(runtime().knowledge().planning_status.message(),
              ::testing::HasSubstr("made with --recompute off"));
  EXPECT_EQ(runtime().knowledge().plan, std::nullopt);
}

// Every op takes as many microseconds as its place in the iteration, from 1 on.
class CountingTimer final : public device::OpTimer {
 public:
  void start() override {
    ++start_count;
    op_count_ = 0;
  }
  void end_op() override { ++op_count_; }
  void begin_pause() override {}
  void leave_out() override { ++leave_out_count; }
  Result<std::vector<int64_t>> durations_ns() override {
    if (!failure.ok()) return failure;
    const int64_t slowness = read_count_++ == disturbed_read ? 10 : 1;
    std::vector<int64_t> durations_ns;
    for (int64_t op = 1; op <= op_count_; ++op) durations_ns.push_back(unit_ns * slowness * op);
    durations_ns.at(static_cast<size_t>(read_count_)) += wandering_ns;
    return durations_ns;
  }

  int64_t unit_ns = 1000;
  int start_count = 0;
  int leave_out_count = 0;
  int64_t disturbed_read = -1;  // takes ten times as long
  int64_t wandering_ns = 0;     // of one op more, each time another one
  Status failure;

 private:
  int64_t op_count_ = 0;
  int64_t read_count_ = 0;
};

TEST_F(RuntimeTest, OpTimesAreTheDevicesWhereItHasThem) {
  CountingTimer timer;
  open({.op_timer = &timer});
  trainee_->steps(8);
  ASSERT_EQ(planned_.size(), 2u) << "made, refined";
  for (const iteration::Profile& profile : planned_)
    for (trace::OpIndex op = 0; op < profile.op_count(); ++op)
      EXPECT_EQ(profile.trace.ops[static_cast<size_t>(op)].duration_ns, 1000 * (op + 1));
  const int start_count = timer.start_count;
  trainee_->steps(3);
  EXPECT_EQ(timer.start_count, start_count) << "nobody asks any more";
}

TEST_F(RuntimeTest, OneDisturbedIterationDoesNotDecideOverTheOpTimes) {
  for (const int disturbed_step : {1, 2, 3, 4}) {
    planned_.clear();
    open();
    for (int step = 1; step <= 4; ++step) {
      if (step == disturbed_step) session_->clock().skipped_ns += 1'000'000'000;
      trainee_->step();
    }
    ASSERT_EQ(planned_.size(), 2u) << "made after two steps, refined after two more";
    for (const iteration::Profile& profile : planned_)
      EXPECT_LT(profile.trace.ops[0].duration_ns, 100'000'000) << "step " << disturbed_step;
    trainee_.reset();
  }
}

TEST_F(RuntimeTest, NorDoesItOverThoseOfATimer) {
  CountingTimer timer;
  timer.disturbed_read = 2;  // the one before the plan is refined
  open({.op_timer = &timer});
  trainee_->steps(8);
  ASSERT_EQ(planned_.size(), 2u);
  EXPECT_EQ(planned_[1].trace.ops[0].duration_ns, 1000);
}

TEST_F(RuntimeTest, WorkOfOurOwnIsNobodysTime) {
  CountingTimer timer;
  open({.op_timer = &timer});
  timer.failure = Status(ErrorCode::kIoError, "no events");  // the clock's times count
  trainee_->between_passes = [&] {
    const int64_t start_ns = runtime().begin_own_work();
    session_->clock().skipped_ns += 1'000'000'000;
    runtime().end_own_work(start_ns);
  };
  trainee_->steps(4);
  ASSERT_FALSE(planned_.empty());
  for (const trace::Op& op : planned_[0].trace.ops) EXPECT_LT(op.duration_ns, 100'000'000);
  for (const engine::IterationRecord& iteration : runtime().iterations())
    EXPECT_LT(iteration.duration_ns, 1'000'000'000);
  EXPECT_EQ(timer.leave_out_count, 4);
}

// Reaches a point of its work only when somebody waits for it: asks again and again, then waits.
class WaitCountingDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Result<device::Event> record_point(Stream stream) override {
    const Result<device::Event> event = ForwardingDevice::record_point(stream);
    const std::lock_guard lock(mutex_);
    if (!stream && !is_host_addressable()) questions_[event->id] = 0;
    return event;
  }
  bool is_past(device::Event event) const override {
    const std::lock_guard lock(mutex_);
    const auto point = questions_.find(event.id);
    if (point != questions_.end() && ++point->second < kQuestionsOfAWait) return false;
    return ForwardingDevice::is_past(event);
  }
  Status wait_for(device::Event event) override {
    ++wait_count;
    return ForwardingDevice::wait_for(event);
  }

  int wait_count = 0;

 private:
  static constexpr int kQuestionsOfAWait = 50;  // each op asks a few

  mutable std::mutex mutex_;                   // the stores' threads ask, too
  mutable std::map<uint64_t, int> questions_;  // by point
};

TEST_F(RuntimeTest, TheProgramIsAFewOpsAheadOfTheDeviceWhileAPlanIsFollowed) {
  CountingTimer timer;
  timer.unit_ns = 1'000'000;
  WaitCountingDevice* device = nullptr;
  open({.op_timer = &timer, .put_in_front = [&](device::Device& behind) {
          auto made = std::make_unique<WaitCountingDevice>(behind);
          device = made.get();
          return made;
        }});
  trainee_->steps(2);
  ASSERT_TRUE(runtime().figures().is_following_plan);
  EXPECT_EQ(device->wait_count, 0) << "on demand";
  trainee_->step();
  // The ops take 1, 2, 3 ms and so on: when the third is enqueued, it is enough to be ahead.
  const int op_count = static_cast<int>(trainee_->ops_per_step());
  EXPECT_EQ(device->wait_count, device->is_host_addressable() ? 0 : op_count - 2);
}

TEST_F(RuntimeTest, OpsTogetherTakeAsLongAsAnIteration) {
  CountingTimer timer;
  timer.wandering_ns = 1'000'000;
  open({.op_timer = &timer});
  trainee_->steps(5);
  ASSERT_EQ(planned_.size(), 2u);
  int64_t ops_ns = 0;
  int64_t undisturbed_ns = 0;
  for (trace::OpIndex op = 0; op < planned_[1].op_count(); ++op) {
    ops_ns += planned_[1].trace.ops[static_cast<size_t>(op)].duration_ns;
    undisturbed_ns += 1000 * (op + 1);
  }
  EXPECT_NEAR(static_cast<double>(ops_ns), static_cast<double>(undisturbed_ns + timer.wandering_ns),
              1000);
}

TEST_F(RuntimeTest, ATimerThatFailsLeavesTheClocksTimes) {
  CountingTimer timer;
  timer.failure = Status(ErrorCode::kIoError, "no events");
  open({.op_timer = &timer});
  trainee_->steps(8);
  ASSERT_EQ(planned_.size(), 2u);
  const trace::Op& last_op = planned_[0].trace.ops.back();
  EXPECT_NE(last_op.duration_ns, 1000 * planned_[0].op_count());
  EXPECT_GT(last_op.duration_ns, 0);
}

// The last op that uses each tensor.
std::vector<trace::OpIndex> last_uses(const trace::Trace& trace) {
  std::vector<trace::OpIndex> last(trace.tensors.size(), 0);
  for (size_t op = 0; op < trace.ops.size(); ++op)
    for (const auto* tensors : {&trace.ops[op].reads, &trace.ops[op].writes})
      for (const trace::TensorIndex tensor : *tensors)
        last[tensor] = static_cast<trace::OpIndex>(op);
  return last;
}

// Weights and gradients that wait for zero_grad take more than the budget: gradients leave after
// the update that uses them last, and are freed while they are away, when the next step begins.
TEST_F(RuntimeTest, GradientsLeaveByThePlanAfterTheirLastUseAndDieAway) {
  constexpr int kManyLayers = 24;
  constexpr int64_t kBudgetUnits = 28;
  constexpr int64_t kRate = 1'000'000'000;
  hardware::Hardware hardware;
  hardware.device_memory_bytes = kBudgetUnits * kUnitBytes;
  hardware.device_link = {kRate, kRate};
  hardware.drives = {{"d0", 1000 * kUnitBytes, {kRate, kRate}, 2.0, {}}};
  open({.budget_units = kBudgetUnits,
        .make_plan =
            [&](const iteration::Profile& profile) {
              planned_.push_back(profile);
              return planner::plan(profile.trace, hardware, {},
                                   {.recompute = planner::Recompute::kOff});
            }},
       kManyLayers);
  trainee_->steps(6);
  ASSERT_EQ(runtime().knowledge().planning_status, Status());
  EXPECT_EQ(modes().back(), Mode::kPlanned);
  const trace::Trace& trace = planned_.back().trace;
  const std::vector<trace::OpIndex> last = last_uses(trace);
  const plan::Plan plan = runtime().knowledge().plan.value_or(plan::Plan());
  int leaving_for_good = 0;
  for (const plan::Migration& migration : plan.migrations)
    leaving_for_good += !trace.tensors[migration.tensor].persistent &&
                        migration.trigger_op > last[migration.tensor];
  EXPECT_GT(leaving_for_good, 0);
  const int64_t read_bytes = session_->ssd().counters().bytes_read;
  const int64_t away_bytes = runtime().figures().offloaded_bytes;
  session_->runtime().begin_step();
  trainee_->zero_grad();
  EXPECT_LT(runtime().figures().offloaded_bytes, away_bytes);
  EXPECT_EQ(session_->ssd().counters().bytes_read, read_bytes);
}

TEST_F(RuntimeTest, AnIterationWithAnOpThatCouldNotBeginRefinesNothing) {
  open({.make_plan = [this](const iteration::Profile& profile) -> Result<plan::Plan> {
    planned_.push_back(profile);
    plan::Plan plan = away_between(profile, *trainee_->weights[0], 1, 2);
    plan.migrations.pop_back();  // it comes back when it is needed
    return plan;
  }});
  engine::LiveTensor* weight = trainee_->weights[0];
  const auto step = [&](bool is_last_op_possible) {
    for (uint64_t i = 1; i < 4; ++i) session_->op(i, i == 1 ? Tensors{weight} : Tensors{});
    engine::OpFrame last = RuntimeSession::frame({weight});
    EXPECT_EQ(runtime().begin_op(last, 4).ok(), is_last_op_possible);
    runtime().end_op(last, "op", 4, {});
    runtime().end_step();
  };
  for (int i = 0; i < 3; ++i) step(true);
  ASSERT_EQ(planned_.size(), 1u);
  session_->ssd().fail(io::Direction::kRead, "cable");
  step(false);
  EXPECT_EQ(planned_.size(), 1u) << "the time of an op that did not run is not known";
  session_->ssd().heal();
  step(true);
  EXPECT_EQ(planned_.size(), 2u);
}

TEST_F(RuntimeTest, AnOpThatFailsInTheMiddleLeavesNothingPinned) {
  open({.budget_units = 5});
  engine::LiveTensor* weight = trainee_->weights[0];
  engine::OpFrame frame = RuntimeSession::frame({weight});
  ASSERT_TRUE(runtime().begin_op(frame, 1).ok());
  runtime().end_op(frame, "op", 1, {.is_complete = false});
  EXPECT_EQ(weight->uses.pin_count, 0u);
  runtime().end_op(frame, "op", 1, {.is_complete = false});
  EXPECT_EQ(weight->uses.pin_count, 0u) << "an op ends once";
}

TEST_F(RuntimeTest, AnOpThatCouldNotBeginNeedNotEnd) {
  open({.budget_units = 4});
  session_->op(1, trainee_->weights);
  session_->op(2, {}, {}, 4);
  engine::LiveTensor* weight = trainee_->weights[0];
  ASSERT_EQ(weight->residency, engine::Residency::kOffloaded);
  session_->ssd().fail(io::Direction::kRead, "cable");
  engine::OpFrame frame = RuntimeSession::frame({weight});
  EXPECT_EQ(runtime().begin_op(frame, 3).status().code(), ErrorCode::kIoError);
  runtime().end_op(frame, "op", 3, {});
  EXPECT_EQ(weight->uses.pin_count, 0u);
  session_->ssd().heal();
  session_->op(3, {weight});
}

TEST_F(RuntimeTest, ATensorWhoseAddressIsKnownStaysUntilItDies) {
  open({.evict_after_every_op = true});
  engine::LiveTensor* known = session_->born();
  session_->op(1, {known});
  EXPECT_EQ(known->residency, engine::Residency::kOffloaded);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(runtime().pin_permanently(known).ok());
  EXPECT_EQ(runtime().figures().permanently_pinned_bytes, kUnitBytes);
  session_->op(1, {known});
  EXPECT_EQ(known->residency, engine::Residency::kResident);
  session_->die(known);
  EXPECT_EQ(runtime().figures().permanently_pinned_bytes, 0);
}

TEST_F(RuntimeTest, WorkspaceIsWhatIsBornAndDiesInsideAnOp) {
  open();
  const auto step = [&] {
    engine::OpFrame frame = RuntimeSession::frame({trainee_->weights[0]});
    ASSERT_TRUE(runtime().begin_op(frame, 1).ok());
    engine::LiveTensor* workspace = session_->born(3);
    session_->die(workspace);
    runtime().end_op(frame, "op", 1, {});
    runtime().end_step();
  };
  for (int i = 0; i < 3; ++i) step();
  ASSERT_FALSE(planned_.empty());
  EXPECT_EQ(planned_[0].trace.ops[0].workspace_bytes, 3 * kUnitBytes);
  EXPECT_EQ(planned_[0].trace.tensors.size(), 1u) << "it is no tensor of the profile";
}

TEST_F(RuntimeTest, TheNaturalPeakHasWhatTheProgramHoldsWhereverItIs) {
  RuntimeSession session({.budget_units = 3});
  Tensors held;
  for (int i = 0; i < 6; ++i) held.push_back(session.op(1, {}, {}, 1));
  for (engine::LiveTensor* tensor : held) session.die(tensor);
  session.op(1, {}, {}, 1);
  EXPECT_EQ(session.runtime().figures().natural_peak_bytes, 6 * kUnitBytes);
}

TEST_F(RuntimeTest, ResultsThatAreNotCompleteCannotLeaveYet) {
  open({.budget_units = 8});
  for (const bool is_complete : {false, true}) {
    engine::OpFrame frame;
    ASSERT_TRUE(runtime().begin_op(frame, 1).ok());
    engine::LiveTensor* result = session_->born();
    frame.uses.push_back({result, true});
    runtime().end_op(frame, "op", 1, {.is_complete = is_complete});
    EXPECT_EQ(result->birth.is_complete, is_complete);
  }
}

TEST_F(RuntimeTest, TheTimelineHasEveryChangeOfTheBytes) {
  open();
  trainee_->steps(2);
  const std::vector<engine::MemorySample> samples = runtime().knowledge().memory;
  ASSERT_GT(samples.size(), static_cast<size_t>(kLayers));
  EXPECT_LE(static_cast<int64_t>(samples.size()), trainee_->ops_per_step());
  for (size_t i = 1; i < samples.size(); ++i) {
    EXPECT_GE(samples[i].time_ns, samples[i - 1].time_ns);
    EXPECT_NE(samples[i].device_bytes, samples[i - 1].device_bytes);
  }
  EXPECT_EQ(runtime().iterations().back().device_peak_bytes, (2 * kLayers + 1) * kUnitBytes);
}

TEST_F(RuntimeTest, AnIterationsBytesAreItsOwn) {
  open();
  trainee_->steps(6);
  const engine::IterationRecord record = runtime().iterations().back();
  EXPECT_EQ(record.ssd_bytes_written, kUnitBytes);
  EXPECT_EQ(record.ssd_bytes_read, kUnitBytes);
  EXPECT_EQ(record.host_bytes_written, 0);
}

TEST_F(RuntimeTest, TheTraceIsThatOfTheProfile) {
  open();
  EXPECT_EQ(runtime().knowledge().trace, std::nullopt);
  runtime().describe(trainee_->weights[0], trace::TensorKind::kParameter, "first");
  trainee_->steps(3);
  const std::optional<trace::Trace> trace = runtime().knowledge().trace;
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(trace->tensors[0].name, "first");
  EXPECT_TRUE(trace->tensors[0].persistent);
}

TEST_F(RuntimeTest, EveryUseBringsBackWhenEverythingLeavesAfterEveryOp) {
  open({.evict_after_every_op = true});
  trainee_->steps(6);
  EXPECT_GT(runtime().figures().counters.urgent_reads, 5 * kLayers);
  for (const engine::LiveTensor* weight : trainee_->weights)
    EXPECT_EQ(weight->residency, engine::Residency::kOffloaded);
}

TEST_F(RuntimeTest, StopBringsEverythingBack) {
  open({.budget_units = 7});
  trainee_->steps(4);
  EXPECT_GT(runtime().figures().offloaded_bytes, 0);
  session_->device().set_budget_bytes(1000 * kUnitBytes);
  ASSERT_TRUE(runtime().stop().ok());
  EXPECT_EQ(runtime().figures().offloaded_bytes, 0);
  for (engine::LiveTensor* weight : trainee_->weights) session_->expect_bytes(*weight);
  const size_t iteration_count = runtime().iterations().size();
  trainee_->steps(2);
  EXPECT_EQ(runtime().iterations().size(), iteration_count) << "it only looks on";
}

TEST_F(RuntimeTest, AbandonBringsNothingBack) {
  open({.budget_units = 7});
  trainee_->steps(4);
  ASSERT_GT(runtime().figures().offloaded_bytes, 0);
  const int64_t bytes_read = session_->ssd().counters().bytes_read;
  runtime().discard();
  EXPECT_EQ(session_->ssd().counters().bytes_read, bytes_read);
  // A GPU's pool reserves whole pages of its own size.
  EXPECT_LE(session_->device().is_host_addressable() ? session_->device().usage().reserved_bytes
                                                     : session_->device().allocated_bytes(),
            7 * kUnitBytes);
  for (engine::LiveTensor* weight : trainee_->weights) {
    const bool is_away = weight->residency == engine::Residency::kOffloaded;
    const Status status = runtime().pin(weight);
    EXPECT_EQ(status.ok(), !is_away) << status.message();
    if (status.ok()) runtime().unpin(weight);
  }
}

TEST_F(RuntimeTest, StopDuringAnOpLetsItEnd) {
  open();
  engine::OpFrame frame = RuntimeSession::frame({trainee_->weights[0]});
  ASSERT_TRUE(runtime().begin_op(frame, 1).ok());
  ASSERT_TRUE(runtime().stop().ok());
  runtime().end_op(frame, "op", 1, {});
  EXPECT_EQ(trainee_->weights[0]->uses.pin_count, 0u);
}

TEST_F(RuntimeTest, ATensorThatDiesInsideItsOpIsFreedAtTheOpsEnd) {
  open();
  engine::LiveTensor* tensor = session_->op(1, {}, {}, 2);
  const int64_t allocated_bytes = session_->device().usage().allocated_bytes;
  engine::OpFrame frame = RuntimeSession::frame({tensor});
  ASSERT_TRUE(runtime().begin_op(frame, 2).ok());
  session_->die(tensor);
  EXPECT_EQ(session_->device().usage().allocated_bytes, allocated_bytes) << "the op still reads it";
  runtime().end_op(frame, "op", 2, {});
  EXPECT_EQ(session_->device().usage().allocated_bytes, allocated_bytes - 2 * kUnitBytes);
}

}  // namespace
}  // namespace teraio::runtime
