// The planner against the optimum, found by trying every plan, on traces that are small enough.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <tuple>

#include "planner/planner.h"
#include "simulate/simulator.h"
#include "testing/generated_trace.h"
#include "trace/lifetimes.h"

namespace teraio::planner {
namespace {

constexpr int64_t kKiloByte = 1'000;
constexpr int64_t kBytesPerSecond = 1'000'000'000;
constexpr double kMostPlans = 20'000;

// Every way to spend an idle period: on the device, or offloaded from one op on until another.
struct Stay {
  int64_t leave_op = 0;  // unrolled; equal to return_op: stays on the device
  int64_t return_op = 0;
};

std::vector<Stay> stays_of(const trace::InactivePeriod& period) {
  std::vector<Stay> stays = {{0, 0}};
  for (int64_t leave = period.first; leave < period.end; ++leave)
    for (int64_t back = period.until_freed ? period.end : leave + 1; back <= period.end; ++back)
      stays.push_back({leave, back});
  return stays;
}

class AllPlans {
 public:
  AllPlans(const trace::Trace& trace, const hardware::Hardware& hardware)
      : trace_(trace), lifetimes_(lifetimes_of(trace)), simulator_(trace, hardware, {}) {
    for (const trace::InactivePeriod& period : lifetimes_.periods)
      choices_.push_back(stays_of(period));
    chosen_.resize(choices_.size());
  }

  double count() const {
    double plans = 1;
    for (const std::vector<Stay>& stays : choices_) plans *= static_cast<double>(stays.size());
    return plans;
  }

  int64_t shortest_step_ns() {
    choose(0);
    return shortest_ns_;
  }

 private:
  void choose(size_t period) {
    if (period == choices_.size()) return judge();
    for (const Stay& stay : choices_[period]) {
      chosen_[period] = stay;
      choose(period + 1);
    }
  }

  void judge() {
    const Result<teraio::simulate::Run> run = simulator_.run(chosen_plan());
    if (run.ok()) shortest_ns_ = std::min(shortest_ns_, run->step_ns);
  }

  // Of an epoch's offloaded periods the first one writes.
  plan::Plan chosen_plan() const {
    plan::Plan plan{trace_.name, {}};
    for (const trace::CopyEpoch& epoch : lifetimes_.epochs) {
      bool copied = epoch.never_written;
      for (int32_t index : epoch.periods) {
        if (chosen_[index].leave_op == chosen_[index].return_op) continue;
        add(plan, index, copied ? plan::Action::kDrop : plan::Action::kOffload);
        copied = true;
      }
    }
    std::sort(plan.migrations.begin(), plan.migrations.end(), [](const auto& a, const auto& b) {
      const auto key = [](const plan::Migration& m) {
        return std::tuple(m.trigger_op, m.action == plan::Action::kPrefetch, m.deadline_op,
                          m.tensor);
      };
      return key(a) < key(b);
    });
    return plan;
  }

  void add(plan::Plan& plan, int32_t index, plan::Action action) const {
    const trace::InactivePeriod& period = lifetimes_.periods[index];
    const auto op = [this](int64_t unrolled) {
      return static_cast<trace::OpIndex>(unrolled % static_cast<int64_t>(trace_.ops.size()));
    };
    const trace::OpIndex deadline = op(period.deadline());
    plan.migrations.push_back(
        {period.tensor, action, op(chosen_[index].leave_op), deadline, plan::Tier::kSsd});
    if (period.until_freed) return;
    plan.migrations.push_back({period.tensor, plan::Action::kPrefetch, op(chosen_[index].return_op),
                               deadline, plan::Tier::kSsd});
  }

  const trace::Trace& trace_;
  const trace::Lifetimes lifetimes_;
  const simulate::Simulator simulator_;
  std::vector<std::vector<Stay>> choices_;  // per period
  std::vector<Stay> chosen_;
  int64_t shortest_ns_ = std::numeric_limits<int64_t>::max();
};

struct TinyCase {
  trace::Trace trace;
  hardware::Hardware hardware;
};

TinyCase tiny_case(uint64_t seed, double duplex) {
  testing::GeneratedTraceOptions options;
  testing::Random random(seed + 77);
  options.op_count = random.between(3, 6);
  options.persistent_count = random.between(1, 3);
  options.smallest_bytes = kKiloByte;
  options.largest_bytes = 6 * kKiloByte;
  options.longest_op_ns = 6'000;
  TinyCase tiny{testing::generated_trace(seed, options), {}};
  const trace::Lifetimes lifetimes = lifetimes_of(tiny.trace);
  const auto largest = [](const std::vector<int64_t>& bytes) {
    return *std::max_element(bytes.begin(), bytes.end());
  };
  const int64_t least_bytes = largest(lifetimes.active_bytes);
  const int64_t most_bytes = largest(lifetimes.footprint_bytes);
  tiny.hardware.device_memory_bytes =
      random.between(least_bytes, std::max(least_bytes, most_bytes - 1));
  tiny.hardware.device_link = {kBytesPerSecond, kBytesPerSecond};
  tiny.hardware.host = {0, {kBytesPerSecond, kBytesPerSecond}};
  tiny.hardware.drives = {{"d0", 1 << 30, {kBytesPerSecond, kBytesPerSecond}, duplex, {}}};
  return tiny;
}

// The planner's step over the optimum's; nothing when there are too many plans to try.
std::optional<double> over_optimum(uint64_t seed, double duplex) {
  const TinyCase tiny = tiny_case(seed, duplex);
  AllPlans plans(tiny.trace, tiny.hardware);
  if (plans.count() > kMostPlans || plans.count() < 2) return std::nullopt;
  const Result<plan::Plan> ours = plan(tiny.trace, tiny.hardware, {}, {.effort = Effort::kBest});
  EXPECT_TRUE(ours.ok()) << ours.status().message();
  if (!ours.ok() || ours->migrations.empty()) return std::nullopt;
  const Result<teraio::simulate::Run> run =
      simulate::simulate(tiny.trace, tiny.hardware, {}, *ours);
  EXPECT_TRUE(run.ok()) << run.status().message();
  const int64_t optimum_ns = plans.shortest_step_ns();
  EXPECT_GE(run->step_ns, optimum_ns) << "not every plan was tried, seed " << seed;
  return static_cast<double>(run->step_ns) / static_cast<double>(optimum_ns);
}

struct DriveCase {
  double duplex;     // 1: reads and writes share the drive; 2: they do not
  double worst_max;  // of the optimum's step
  const char* name;
};

class Optimum : public ::testing::TestWithParam<DriveCase> {};

TEST_P(Optimum, ThePlannerIsNeverBetterAndSeldomMuchWorse) {
  double sum = 0;
  double worst = 0;
  int cases = 0;
  int optimal = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::optional<double> ratio = over_optimum(seed, GetParam().duplex);
    if (!ratio) continue;
    ++cases;
    sum += *ratio;
    worst = std::max(worst, *ratio);
    if (*ratio < 1.001) ++optimal;
  }
  ASSERT_GE(cases, 30);
  std::printf("%d cases: %d optimal, mean %.3f, worst %.3f of the optimum's step\n", cases, optimal,
              sum / cases, worst);
  EXPECT_LT(sum / cases, 1.005);
  EXPECT_LT(worst, GetParam().worst_max);
}

INSTANTIATE_TEST_SUITE_P(Drives, Optimum,
                         ::testing::Values(DriveCase{1.0, 1.2, "SharedDirections"},
                                           DriveCase{2.0, 1.1, "OwnDirections"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace teraio::planner
