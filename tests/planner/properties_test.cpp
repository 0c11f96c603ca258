// What holds for every trace, machine and plan, on generated ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/validator.h"
#include "planner/bounds.h"
#include "planner/planner.h"
#include "planner/policies/baselines.h"
#include "simulate/simulator.h"
#include "testing/generated_trace.h"
#include "trace/trace_file.h"
#include "trace/trace_index.h"

namespace teraio::planner {
namespace {

struct Case {
  explicit Case(uint64_t seed) : Case(seed, options_of(seed)) {}
  Case(uint64_t seed, const testing::GeneratedTraceOptions& options)
      : trace(testing::generated_trace(seed, options)) {
    hardware = testing::generated_hardware(seed, trace);
  }

  static testing::GeneratedTraceOptions options_of(uint64_t seed) {
    testing::Random random(seed + 1'000);
    testing::GeneratedTraceOptions options;
    options.op_count = random.scaled(1, 300);
    options.persistent_count = random.between(0, 12);
    options.longest_op_ns = random.scaled(1'000'000, 1'000'000'000);
    if (random.chance(0.3)) options.largest_bytes = 100;
    return options;
  }

  Result<teraio::simulate::Run> simulated(const plan::Plan& plan) const {
    return simulate::simulate(trace, hardware, limits, plan);
  }

  trace::Trace trace;
  hardware::Hardware hardware;
  plan::Limits limits;
};

class Properties : public ::testing::TestWithParam<uint64_t> {};

TEST_P(Properties, GeneratedTracesFollowTheFormat) {
  EXPECT_TRUE(validate(Case(GetParam()).trace).ok()) << validate(Case(GetParam()).trace).message();
}

TEST_P(Properties, EveryPolicyValidatesRunsAndRespectsTheBound) {
  const Case given(GetParam());
  const StepBounds bounds = lower_bounds(given.trace, given.hardware, given.limits, 16);
  for (Baseline baseline : all_baselines()) {
    SCOPED_TRACE(to_string(baseline));
    const Result<plan::Plan> plan =
        plan_baseline(baseline, given.trace, given.hardware, given.limits);
    if (!plan.ok()) {  // what these keep on the device may not fit, nor what they move in the host
      EXPECT_TRUE(baseline == Baseline::kZeroOffload || baseline == Baseline::kActivationsOnly)
          << plan.status().message();
      continue;
    }
    const Status valid = validate_plan(*plan, given.trace, given.hardware, given.limits);
    EXPECT_TRUE(valid.ok()) << valid.message();
    const Result<teraio::simulate::Run> run = given.simulated(*plan);
    ASSERT_TRUE(run.ok()) << run.status().message();
    EXPECT_GE(run->step_ns, bounds.best_ns());
    EXPECT_LE(run->device_peak_bytes, given.hardware.device_memory_bytes);
    EXPECT_LE(run->host_peak_bytes, given.hardware.host.capacity_bytes);
  }
}

// With both efforts.
std::vector<Result<plan::Plan>> plans_of_ours(const Case& given) {
  return {plan(given.trace, given.hardware, given.limits),
          plan(given.trace, given.hardware, given.limits, {.effort = Effort::kBest})};
}

TEST_P(Properties, OursNeverBeatsTheBoundNorLosesToOnDemand) {
  const Case given(GetParam());
  const Result<plan::Plan> on_demand =
      plan_baseline(Baseline::kOnDemandFarthest, given.trace, given.hardware, given.limits);
  ASSERT_TRUE(on_demand.ok()) << on_demand.status().message();
  const Result<teraio::simulate::Run> demand_run = given.simulated(*on_demand);
  ASSERT_TRUE(demand_run.ok()) << demand_run.status().message();
  const int64_t bound_ns = lower_bounds(given.trace, given.hardware, given.limits, 16).best_ns();
  for (const Result<plan::Plan>& ours : plans_of_ours(given)) {
    ASSERT_TRUE(ours.ok()) << ours.status().message();
    const Status valid = validate_plan(*ours, given.trace, given.hardware, given.limits);
    EXPECT_TRUE(valid.ok()) << valid.message();
    const Result<teraio::simulate::Run> run = given.simulated(*ours);
    ASSERT_TRUE(run.ok()) << run.status().message();
    EXPECT_GE(run->step_ns, bound_ns);
    EXPECT_LE(run->step_ns, demand_run->step_ns);
    EXPECT_LE(run->device_peak_bytes, given.hardware.device_memory_bytes);
    EXPECT_LE(run->host_peak_bytes, given.hardware.host.capacity_bytes);
  }
}

// Time that ops run or wait is the whole step, and what a plan moves is what the channels carry.
TEST_P(Properties, RunsAddUp) {
  const Case given(GetParam());
  const Result<plan::Plan> plan =
      plan_baseline(Baseline::kZeroInfinity, given.trace, given.hardware, given.limits);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const Result<teraio::simulate::Run> run = given.simulated(*plan);
  ASSERT_TRUE(run.ok()) << run.status().message();
  int64_t stalled_ns = 0;
  for (const auto& [cause, stall_ns] : run->stall_by_cause_ns) stalled_ns += stall_ns;
  EXPECT_EQ(stalled_ns, run->stall_ns);
  EXPECT_EQ(run->step_ns, run->ideal_ns + run->stall_ns);
  ASSERT_EQ(run->op_start_ns.size(), given.trace.ops.size());
  for (size_t k = 1; k < run->op_start_ns.size(); ++k)
    EXPECT_GE(run->op_start_ns[k], run->op_start_ns[k - 1] + given.trace.ops[k - 1].duration_ns);
  int64_t read_bytes = 0;
  for (const simulate::TransferRecord& record : run->transfers)
    if (record.action == plan::Action::kPrefetch)
      read_bytes += given.trace.tensors[record.tensor].size_bytes;
  EXPECT_EQ(read_bytes, run->ssd_bytes_read + run->host_bytes_read);
}

// One migration that is left out, moved, sent elsewhere or turned into another.
plan::Plan damaged(plan::Plan plan, const Case& given, testing::Random& random) {
  const auto last = static_cast<int64_t>(plan.migrations.size()) - 1;
  plan::Migration& migration = plan.migrations[random.between(0, last)];
  const auto op_count = static_cast<int64_t>(given.trace.ops.size());
  switch (random.between(0, 4)) {
    case 0:
      migration = plan.migrations.back();
      plan.migrations.pop_back();
      break;
    case 1:
      migration.trigger_op = static_cast<trace::OpIndex>(random.between(-1, op_count));
      break;
    case 2:
      migration.tier = static_cast<plan::Tier>(random.between(0, 1));
      break;
    case 3:
      migration.action = static_cast<plan::Action>(random.between(0, 2));
      break;
    default:
      migration.tensor = static_cast<trace::TensorIndex>(
          random.between(-1, static_cast<int64_t>(given.trace.tensors.size())));
  }
  return plan;
}

// An execution may wait for memory and for room on a tier, so that the simulator may execute a plan
// that the validator refuses for the lack of them.
bool is_about_room(const Status& refusal) {
  const std::string& message = refusal.message();
  return message.starts_with("device memory") || message.find(" capacity: ") != message.npos;
}

// The simulator executes what the validator accepts. What breaks any other rule it refuses in the
// validator's words.
TEST_P(Properties, DamagedPlansAreExecutedOrRefusedWithTheRule) {
  const Case given(GetParam());
  testing::Random random(GetParam() + 3'000);
  for (Baseline baseline : {Baseline::kOnDemandLru, Baseline::kZeroInfinity}) {
    const Result<plan::Plan> whole =
        plan_baseline(baseline, given.trace, given.hardware, given.limits);
    ASSERT_TRUE(whole.ok()) << whole.status().message();
    for (int i = 0; i < 40 && !whole->migrations.empty(); ++i) {
      const plan::Plan plan = damaged(*whole, given, random);
      const Status valid = validate_plan(plan, given.trace, given.hardware, given.limits);
      const Result<teraio::simulate::Run> run = given.simulated(plan);
      if (valid.ok())
        EXPECT_TRUE(run.ok()) << run.status().message();
      else if (!is_about_room(valid))
        EXPECT_EQ(run.status().message(), valid.message());
      else if (!run.ok())
        EXPECT_EQ(run.status().code(), ErrorCode::kInvalidArgument) << run.status().message();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Properties, ::testing::Range<uint64_t>(0, 60));

void multiply(Rates& rates, double factor) {
  for (int64_t* rate : {&rates.read_bytes_per_second, &rates.write_bytes_per_second})
    *rate = static_cast<int64_t>(static_cast<double>(*rate) * factor);
}

// The machine with more of one thing at a time.
std::vector<hardware::Hardware> machines_with_more(const Case& given, testing::Random& random) {
  const int64_t peak_bytes = std::ranges::max(lifetimes_of(given.trace).footprint_bytes);
  std::vector<hardware::Hardware> more(6, given.hardware);
  more[0].device_memory_bytes += random.between(1, 1 + peak_bytes / 4);
  more[1].host.capacity_bytes += random.between(1, 1 + peak_bytes / 4);
  multiply(more[2].device_link, 1 + random.fraction());
  multiply(more[3].host.rates, 1 + random.fraction());
  const double faster = 1 + random.fraction();
  for (hardware::Drive& drive : more[4].drives) multiply(drive.rates, faster);
  more[5].drives.push_back(more[5].drives[0]);
  more[5].drives.back().name = "d2";
  return more;
}

// Greedy choices are not monotone, and neither is a queue of transfers: a faster read may delay the
// one that an op waits for. Such cases stay rare, and cost little.
TEST(MorePlans, AMachineWithMoreIsHardlyEverSlower) {
  constexpr double kNoise = 1.0005;
  int pairs = 0;
  int slower = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Case less(seed);
    const auto step_ns = [&](const hardware::Hardware& hardware) {
      const Result<plan::Plan> plan =
          planner::plan(less.trace, hardware, {}, {.uses_one_thread = true});
      EXPECT_TRUE(plan.ok()) << plan.status().message();
      return static_cast<double>(simulate::simulate(less.trace, hardware, {}, *plan)->step_ns);
    };
    testing::Random random(seed + 4'000);
    const double less_ns = step_ns(less.hardware);
    for (const hardware::Hardware& more : machines_with_more(less, random)) {
      const double ratio = step_ns(more) / std::max(less_ns, 1.0);
      EXPECT_LE(ratio, 1.1) << "seed " << seed << ", machine " << pairs % 6;
      ++pairs;
      slower += ratio > kNoise ? 1 : 0;
    }
  }
  EXPECT_LE(slower, 0.003 * pairs);
}

TEST(LongTraces, ArePlannedSimulatedAndBounded) {
  testing::GeneratedTraceOptions options;
  options.op_count = 20'000;
  options.persistent_count = 50;
  const Case given(3, options);
  const Result<plan::Plan> paging =
      plan_baseline(Baseline::kOnDemandFarthest, given.trace, given.hardware, given.limits);
  ASSERT_TRUE(paging.ok()) << paging.status().message();
  const Result<teraio::simulate::Run> run = given.simulated(*paging);
  ASSERT_TRUE(run.ok()) << run.status().message();
  const int64_t bound_ns = lower_bounds(given.trace, given.hardware, given.limits, 2).best_ns();
  EXPECT_GE(run->step_ns, bound_ns);
  const Result<plan::Plan> ours = plan(given.trace, given.hardware, given.limits);
  ASSERT_TRUE(ours.ok()) << ours.status().message();
  const Status valid = validate_plan(*ours, given.trace, given.hardware, given.limits);
  EXPECT_TRUE(valid.ok()) << valid.message();
  EXPECT_GT(ours->migrations.size(), 1000);
  const Result<teraio::simulate::Run> our_run = given.simulated(*ours);
  ASSERT_TRUE(our_run.ok()) << our_run.status().message();
  EXPECT_GE(our_run->step_ns, bound_ns);
  EXPECT_LE(our_run->step_ns, run->step_ns);
}

}  // namespace
}  // namespace teraio::planner
