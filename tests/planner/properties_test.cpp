// What holds for every trace, machine and plan, on generated ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/bounds.h"
#include "planner/planned_case.h"
#include "planner/policies/baselines.h"
#include "testing/generated_trace.h"
#include "trace/trace_index.h"

namespace teraio::planner {
namespace {

struct Case : testing::PlannedCase {
  explicit Case(uint64_t seed) : Case(seed, options_of(seed)) {}
  Case(uint64_t seed, const testing::GeneratedTraceOptions& options)
      : PlannedCase{testing::generated_trace(seed, options), {}} {
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

  Result<plan::Plan> baseline(Baseline baseline) const {
    return plan_baseline(baseline, trace, hardware, limits);
  }
  // It is legal, no faster than the bound, and fits.
  simulate::Run expect_within_limits(const Result<plan::Plan>& plan, int64_t bound_ns) const {
    simulate::Run run = run_of(valid(plan));
    EXPECT_GE(run.step_ns, bound_ns);
    EXPECT_LE(run.device_peak_bytes, hardware.device_memory_bytes);
    EXPECT_LE(run.host_peak_bytes, hardware.host.capacity_bytes);
    return run;
  }
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
    const Result<plan::Plan> plan = given.baseline(baseline);
    if (!plan.ok()) {  // what these keep on the device may not fit, nor what they move in the host
      EXPECT_TRUE(baseline == Baseline::kZeroOffload || baseline == Baseline::kActivationsOnly)
          << plan.status().message();
      continue;
    }
    given.expect_within_limits(plan, bounds.best_ns());
  }
}

TEST_P(Properties, OursNeverBeatsTheBoundNorLosesToOnDemand) {
  const Case given(GetParam());
  const simulate::Run on_demand =
      given.run_of(given.valid(given.baseline(Baseline::kOnDemandFarthest)));
  const int64_t bound_ns = lower_bounds(given.trace, given.hardware, given.limits, 16).best_ns();
  for (const Effort effort : {Effort::kFast, Effort::kBest}) {
    const Result<plan::Plan> ours =
        plan(given.trace, given.hardware, given.limits, {.effort = effort});
    EXPECT_LE(given.expect_within_limits(ours, bound_ns).step_ns, on_demand.step_ns);
  }
}

// Time that ops run or wait is the whole step, and what a plan moves is what the channels carry.
TEST_P(Properties, RunsAddUp) {
  const Case given(GetParam());
  const simulate::Run run = given.run_of(given.valid(given.baseline(Baseline::kZeroInfinity)));
  int64_t stalled_ns = 0;
  for (const auto& [cause, stall_ns] : run.stall_by_cause_ns) stalled_ns += stall_ns;
  EXPECT_EQ(stalled_ns, run.stall_ns);
  EXPECT_EQ(run.step_ns, run.ideal_ns + run.stall_ns);
  ASSERT_EQ(run.op_start_ns.size(), given.trace.ops.size());
  for (size_t k = 1; k < run.op_start_ns.size(); ++k)
    EXPECT_GE(run.op_start_ns[k], run.op_start_ns[k - 1] + given.trace.ops[k - 1].duration_ns);
  int64_t read_bytes = 0;
  for (const simulate::TransferRecord& record : run.transfers)
    if (record.action == plan::Action::kPrefetch)
      read_bytes += given.trace.tensors[record.tensor].size_bytes;
  EXPECT_EQ(read_bytes, run.ssd_bytes_read + run.host_bytes_read);
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
    const plan::Plan whole = given.valid(given.baseline(baseline));
    for (int i = 0; i < 40 && !whole.migrations.empty(); ++i) {
      const plan::Plan plan = damaged(whole, given, random);
      const Status valid = validate_plan(plan, given.trace, given.hardware, given.limits);
      const Result<simulate::Run> run =
          simulate::simulate(given.trace, given.hardware, given.limits, plan);
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
      const testing::PlannedCase given{less.trace, hardware};
      return static_cast<double>(given.step_ns({.uses_one_thread = true}));
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
  const int64_t bound_ns = lower_bounds(given.trace, given.hardware, given.limits, 2).best_ns();
  const simulate::Run paging =
      given.expect_within_limits(given.baseline(Baseline::kOnDemandFarthest), bound_ns);
  const plan::Plan ours = given.planned();
  EXPECT_GT(ours.migrations.size(), 1000);
  EXPECT_LE(given.expect_within_limits(ours, bound_ns).step_ns, paging.step_ns);
}

}  // namespace
}  // namespace teraio::planner
