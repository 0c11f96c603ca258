#include "planner/planner.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "planner/min_write_set.h"
#include "planner/policies/algorithm1.h"
#include "planner/policies/baselines.h"
#include "planner/problem.h"
#include "planner/replay_search.h"
#include "planner/search.h"
#include "planner/selection.h"
#include "simulate/simulator.h"

namespace teraio::planner {
namespace {

// The longest trace for which plans for less host memory are made, and how many: for the powers of
// two up to the capacity, and for no host memory.
constexpr int64_t kFewOps = 500;
constexpr int kLesserPlans = 5;

bool moves_smaller_than(const plan::Plan& plan, const trace::Trace& trace, int64_t size_bytes) {
  return std::any_of(plan.migrations.begin(), plan.migrations.end(), [&](const plan::Migration& m) {
    return trace.tensors[m.tensor].size_bytes < size_bytes;
  });
}

// Chooses among plans by their steps on the machine of the problem.
class Choice {
 public:
  Choice(const Problem& problem, Prefer prefer, Result<plan::Plan> first)
      : simulator_(problem.trace, problem.hardware, problem.limits),
        slack_(prefer == Prefer::kWear ? kWearSlack : 1),
        best_(std::move(first)) {
    if (best_.ok()) best_ns_ = step_ns(*best_).value_or(best_ns_);
  }

  void offer(Result<plan::Plan> other) {
    if (!other.ok()) return;
    const std::optional<double> other_ns = step_ns(*other);
    if (!other_ns || best_ns_ <= slack_ * *other_ns) return;
    best_ = std::move(other);
    best_ns_ = *other_ns;
  }

  Result<plan::Plan> take() { return std::move(best_); }

 private:
  std::optional<double> step_ns(const plan::Plan& plan) const {
    const Result<simulate::Run> run = simulator_.run(plan);
    if (!run.ok()) return std::nullopt;
    return static_cast<double>(run->step_ns);
  }

  const simulate::Simulator simulator_;
  const double slack_;
  Result<plan::Plan> best_;
  double best_ns_ = std::numeric_limits<double>::infinity();
};

// Where there are few choices, on-demand paging can be as fast as a plan, or faster by chance.
void offer_paging(const Problem& problem, Choice& choice) {
  Result<plan::Plan> paging =
      plan_baseline(Baseline::kOnDemandFarthest, problem.trace, problem.hardware, problem.limits);
  if (paging.ok() &&
      !moves_smaller_than(*paging, problem.trace, problem.limits.smallest_tensor_bytes))
    choice.offer(std::move(paging));
}

// A plan for less host memory is a plan for more. Where there are few choices, it can be the faster
// one by chance.
void offer_plans_for_less(const Problem& problem, PlannerOptions options, Choice& choice) {
  options.effort = Effort::kFast;
  const int64_t host_bytes = problem.tier_capacity_bytes(plan::Tier::kHost);
  auto less_bytes = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(host_bytes)));
  hardware::Hardware less = problem.hardware;
  for (int i = kLesserPlans; i > 0 && host_bytes > 0; --i, less_bytes /= 2) {
    less.host.capacity_bytes = i > 1 ? less_bytes : 0;
    choice.offer(search_replays(
        {problem.trace, problem.index, problem.lifetimes, less, problem.limits}, options));
  }
}

Result<plan::Plan> plan_by_search(const Problem& problem, const PlannerOptions& options) {
  Choice choice(problem, options.prefer, search_replays(problem, options));
  offer_paging(problem, choice);
  if (problem.op_count() <= kFewOps) offer_plans_for_less(problem, options, choice);
  return choice.take();
}

}  // namespace

int64_t min_device_budget_bytes(const trace::Trace& trace, const plan::Limits& limits) {
  const trace::Lifetimes lifetimes = lifetimes_of(trace, limits.smallest_tensor_bytes);
  const std::vector<int64_t>& active = lifetimes.active_bytes;
  return active.empty() ? 0 : *std::max_element(active.begin(), active.end());
}

int64_t time_limit_ns(const PlannerOptions& options, const trace::Trace& trace) {
  const int64_t default_ns = trace.ops.size() <= 10'000 ? 10'000'000'000 : 60'000'000'000;
  return options.time_limit_ns.value_or(default_ns);
}

Result<plan::Plan> plan(const trace::Trace& trace, const hardware::Hardware& hardware,
                        const plan::Limits& limits, const PlannerOptions& options) {
  const auto solve = [&](const Problem& problem) -> Result<plan::Plan> {
    if (problem.everything_fits()) return plan::Plan{trace.name, {}};
    if (options.policy == Policy::kTeraio) return plan_by_search(problem, options);
    const Result<PlanBuilder> builder = build_by_algorithm1(problem);
    if (!builder.ok()) return builder.status();
    return plan_of(*builder);
  };
  return solve_problem<plan::Plan>(trace, hardware, limits, solve);
}

Result<int64_t> min_write_budget_bytes(const trace::Trace& trace,
                                       const hardware::Hardware& hardware,
                                       const plan::Limits& limits) {
  const auto solve = [](const Problem& problem) -> Result<int64_t> {
    if (problem.everything_fits()) return 0;
    const Result<MinWriteSet> write_set = find_min_write_set(problem);
    if (!write_set.ok()) return write_set.status();
    return write_set->ssd_bytes_written;
  };
  return solve_problem<int64_t>(trace, hardware, limits, solve);
}

}  // namespace teraio::planner
