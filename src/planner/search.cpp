#include "planner/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <future>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "base/clock.h"
#include "planner/selection.h"
#include "planner/write_cover.h"
#include "simulate/simulator.h"

namespace teraio::planner {
namespace {

// A way to plan again and again, each time from what the last execution showed.
struct Chain {
  int rounds = 0;
  double tolerance = 0.05;     // of the greedy
  double price_floor = 0.1;    // what time costs where nothing stalls
  double price_window = 0.02;  // how far a stall is felt, as a part of the step
  double price_memory = 0.5;   // of the price of the rounds before
  bool early_writes = true;
  bool reserves_host = false;    // as the least cover uses it
  double ssd_write_price = 1;    // see PlanBuilderOptions
  double latency_share_max = 1;  // see PlanBuilderOptions
};

constexpr std::array<Chain, 1> kFastChains = {Chain{.rounds = 3}};
constexpr std::array<Chain, 8> kBestChains = {
    Chain{.rounds = 10},
    Chain{.rounds = 10, .tolerance = 0.02, .price_floor = 0.05},
    Chain{.rounds = 8, .price_window = 0.005},
    Chain{.rounds = 10, .tolerance = 0.01, .price_floor = 0.05, .latency_share_max = 0.006},
    Chain{.rounds = 8, .tolerance = 0.01, .price_window = 0.05, .price_memory = 0.8},
    Chain{.rounds = 8, .price_floor = 1.0},
    Chain{.rounds = 12, .tolerance = 0.0, .price_floor = 0.02, .price_memory = 0.7},
    Chain{.rounds = 8, .early_writes = false}};

// Under a write budget that binds. Which price is right depends on how tight it is, and whether
// host memory has to be shared out as the least cover does.
constexpr std::array<Chain, 4> kFastBudgetChains = {
    Chain{.rounds = 2, .ssd_write_price = 4}, Chain{.rounds = 2, .ssd_write_price = 16},
    Chain{.rounds = 2, .reserves_host = true},
    Chain{.rounds = 2, .reserves_host = true, .ssd_write_price = 4}};
constexpr std::array<Chain, 6> kBestBudgetChains = {
    Chain{.rounds = 5, .ssd_write_price = 2},
    Chain{.rounds = 5, .ssd_write_price = 4},
    Chain{.rounds = 5, .ssd_write_price = 8},
    Chain{.rounds = 5, .ssd_write_price = 16},
    Chain{.rounds = 5, .reserves_host = true},
    Chain{.rounds = 5, .reserves_host = true, .ssd_write_price = 4}};

// How long before their deadline reads may start, as a part of the step, where memory is worth more
// than reading early.
constexpr double kReadHorizon = 0.015;
// Reads that start early forgive what a drive does unforeseen: held back they have to be worth it.
constexpr double kWorthHoldingBack = 0.995;
// Nothing is left to gain when a step takes no more than this times the ideal.
constexpr double kGoodEnough = 1.0002;
// Best effort ends when four chains in a row bring less than this part of the step.
constexpr double kLeastGain = 1e-4;
constexpr double kNever = std::numeric_limits<double>::infinity();

std::vector<double> durations_of(const trace::Trace& trace) {
  std::vector<double> durations;
  for (const trace::Op& op : trace.ops) durations.push_back(static_cast<double>(op.duration_ns));
  return durations;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Per op the part of the time around it that ops wait, between `floor` and 1.
std::vector<double> prices_of(const std::vector<double>& ideal_ns,
                              const std::vector<double>& stretched_ns, const Chain& chain) {
  const size_t count = ideal_ns.size();
  const double reach_ns = chain.price_window * sum(stretched_ns);
  std::vector<double> end_ns(3 * count + 1);  // three iterations in a row, so that windows may wrap
  std::vector<double> waited_ns(3 * count + 1);
  for (size_t i = 0; i < 3 * count; ++i) {
    end_ns[i + 1] = end_ns[i] + stretched_ns[i % count];
    waited_ns[i + 1] = waited_ns[i] + stretched_ns[i % count] - ideal_ns[i % count];
  }
  std::vector<double> prices(count);
  size_t low = 0;
  size_t high = 0;
  for (size_t k = count; k < 2 * count; ++k) {
    while (end_ns[low] < end_ns[k] - reach_ns) ++low;
    while (high < 3 * count && end_ns[high] < end_ns[k + 1] + reach_ns) ++high;
    const double span_ns = std::max(end_ns[high] - end_ns[low], 1.0);
    const double waited = (waited_ns[high] - waited_ns[low]) / span_ns;
    prices[k - count] = chain.price_floor + (1 - chain.price_floor) * std::clamp(waited, 0.0, 1.0);
  }
  return prices;
}

// How a built plan runs.
struct Execution {
  double step_ns = 0;
  std::vector<double> stretched_ns;  // per op: from its predecessor's end to its own
};

Execution execution_of(const trace::Trace& trace, const simulate::Run& run) {
  Execution execution{static_cast<double>(run.step_ns), {}};
  int64_t last_end_ns = 0;
  for (size_t k = 0; k < trace.ops.size(); ++k) {
    const int64_t end_ns = run.op_start_ns[k] + trace.ops[k].duration_ns;
    execution.stretched_ns.push_back(static_cast<double>(end_ns - last_end_ns));
    last_end_ns = end_ns;
  }
  return execution;
}

// What rounds have shown so far.
struct Known {
  std::optional<plan::Plan> best;  // within the write budget
  double best_ns = kNever;
  std::vector<double> timeline_ns;  // per op: of the fastest execution, or ideal
  double timeline_step_ns = kNever;
  int64_t least_written_bytes = std::numeric_limits<int64_t>::max();
  Status failure;

  // `worth`: the part of the best step that it may take at most.
  void keep(plan::Plan plan, const Execution& execution, double worth, int64_t written_bytes,
            bool within_budget) {
    least_written_bytes = std::min(least_written_bytes, written_bytes);
    if (execution.step_ns < timeline_step_ns) {
      timeline_step_ns = execution.step_ns;
      timeline_ns = execution.stretched_ns;
    }
    if (!within_budget || execution.step_ns >= worth * best_ns) return;
    best = std::move(plan);
    best_ns = execution.step_ns;
  }

  void learn_from(Known other) {
    least_written_bytes = std::min(least_written_bytes, other.least_written_bytes);
    if (other.timeline_step_ns < timeline_step_ns) {
      timeline_step_ns = other.timeline_step_ns;
      timeline_ns = std::move(other.timeline_ns);
    }
    if (other.best_ns < best_ns) {
      best = std::move(other.best);
      best_ns = other.best_ns;
    }
    if (failure.ok()) failure = other.failure;
  }
};

// When reads start: as early as memory allows, or within kReadHorizon. The first round of a chain
// tries both, the others do what was better.
enum class Reads : uint8_t { kUndecided, kEarly, kHeldBack };

class Search {
 public:
  Search(const Problem& problem, const PlannerOptions& options)
      : problem_(problem),
        unlimited_(without_write_budget(problem.limits)),
        free_problem_{problem.trace, problem.hardware, unlimited_, problem.lifetimes},
        simulator_(problem.trace, problem.hardware, unlimited_),
        ideal_ns_(durations_of(problem.trace)),
        best_effort_(options.effort == Effort::kBest),
        deadline_ns_(clock_.now_ns() + options.time_limit_ns) {
    known_.timeline_ns = ideal_ns_;
  }

  Result<plan::Plan> run() {
    if (problem_.limits.write_budget_bytes)
      TERAIO_RETURN_IF_ERROR(search_within_budget());
    else
      follow_all(best_effort_ ? std::span<const Chain>(kBestChains) : kFastChains);
    if (known_.best) return std::move(*known_.best);
    return known_.failure;
  }

 private:
  static plan::Limits without_write_budget(plan::Limits limits) {
    limits.write_budget_bytes.reset();
    return limits;
  }

  bool done(const Known& known) const {
    if (!known.best) return false;
    if (known.best_ns <= kGoodEnough * sum(ideal_ns_)) return true;
    return clock_.now_ns() > deadline_ns_;
  }

  bool budget_binds() const { return !known_.best || known_.best_ns > known_.timeline_step_ns; }

  // Finds plans that write no more than the budget, or says what the least budget is. First as if
  // there were none: that shows the timeline, and its plan may do.
  Status search_within_budget() {
    known_ = follow(kFastChains.front(), free_problem_, std::move(known_));
    if (!budget_binds()) {
      if (best_effort_) follow_all(kBestChains);
      return Status();
    }
    const Result<WriteCover> cover = least_write_cover(problem_);
    if (!cover.ok()) return known_.best ? Status() : cover.status();
    if (cover->ssd_bytes_written > *problem_.limits.write_budget_bytes)
      return known_.best ? Status() : budget_too_small(cover->ssd_bytes_written);
    reserved_epochs_ = cover->writes_epoch;
    host_periods_ = cover->host_periods;
    judge(builder_of_cover(*cover), known_);
    follow_all(best_effort_ ? std::span<const Chain>(kBestBudgetChains) : kFastBudgetChains);
    return Status();
  }

  Status budget_too_small(int64_t cover_bytes) const {
    const int64_t least_bytes = std::min(cover_bytes, known_.least_written_bytes);
    return Status(
        ErrorCode::kOutOfSpace,
        fmt::format("a write budget of {} bytes per iteration is too small: the least that would "
                    "do is {}",
                    *problem_.limits.write_budget_bytes, least_bytes));
  }

  PlanBuilder builder_of_cover(const WriteCover& cover) const {
    PlanBuilderOptions options;
    options.op_ns = known_.timeline_ns;
    PlanBuilder builder(problem_, std::move(options));
    move_cover(builder, cover);
    prefetch_early(builder);
    return builder;
  }

  // Two at a time, each from what was known before both: the result does not depend on which one
  // is done first.
  void follow_all(std::span<const Chain> chains) {
    int idle_pairs = 0;
    for (size_t i = 0; i < chains.size() && !done(known_); i += 2) {
      std::future<Known> beside;
      if (i + 1 < chains.size())
        beside = std::async(std::launch::async,
                            [this, &chains, i] { return follow(chains[i + 1], problem_, known_); });
      Known known = follow(chains[i], problem_, known_);
      if (beside.valid()) known.learn_from(beside.get());
      const bool little_gained = known.best_ns > (1 - kLeastGain) * known_.best_ns;
      known_ = std::move(known);
      idle_pairs = little_gained ? idle_pairs + 1 : 0;
      if (idle_pairs == 2) return;
    }
  }

  // From the best timeline that is known.
  Known follow(const Chain& chain, const Problem& problem, Known known) const {
    std::vector<double> op_ns = known.timeline_ns;
    std::vector<double> prices;
    if (known.timeline_step_ns != kNever) prices = prices_of(ideal_ns_, op_ns, chain);
    Reads reads = Reads::kUndecided;
    for (int round = 0; round < chain.rounds && !done(known); ++round) {
      std::optional<Execution> execution = attempt(chain, problem, op_ns, prices, reads, known);
      if (!execution) break;
      op_ns = std::move(execution->stretched_ns);
      learn(prices, prices_of(ideal_ns_, op_ns, chain), chain.price_memory);
    }
    return known;
  }

  static void learn(std::vector<double>& prices, const std::vector<double>& seen, double memory) {
    if (prices.empty()) prices = seen;
    for (size_t k = 0; k < prices.size(); ++k)
      prices[k] = memory * prices[k] + (1 - memory) * seen[k];
  }

  std::optional<Execution> attempt(const Chain& chain, const Problem& problem,
                                   const std::vector<double>& op_ns,
                                   const std::vector<double>& prices, Reads& reads,
                                   Known& known) const {
    PlanBuilderOptions options;
    options.early_writes = chain.early_writes;
    options.ssd_write_price = chain.ssd_write_price;
    options.latency_share_max = chain.latency_share_max;
    options.reserved_epochs = reserved_epochs_;
    if (chain.reserves_host) options.reserved_host_periods = host_periods_;
    options.op_ns = op_ns;
    options.read_price = prices;
    options.op_weights = prices;
    for (size_t k = 0; k < prices.size(); ++k) options.op_weights[k] *= op_ns[k];
    PlanBuilder builder(problem, std::move(options));
    select_in_time(builder, chain.tolerance);
    if (Status status = select_to_fit(builder, chain.tolerance); !status.ok()) {
      known.failure = status;
      return std::nullopt;
    }
    revert_unneeded(builder);
    prefetch_early(builder);
    return judge_reads(builder, op_ns, reads, known);
  }

  std::optional<Execution> judge_reads(PlanBuilder& builder, const std::vector<double>& op_ns,
                                       Reads& reads, Known& known) const {
    std::optional<Execution> early;
    if (reads != Reads::kHeldBack) early = judge(builder, known);
    if (reads == Reads::kEarly || (early && done(known))) return early;
    hold_back_reads(builder, op_ns, kReadHorizon * sum(op_ns));
    std::optional<Execution> held_back = judge(builder, known, kWorthHoldingBack);
    const bool is_better =
        held_back && (!early || held_back->step_ns < kWorthHoldingBack * early->step_ns);
    if (reads == Reads::kUndecided) reads = is_better ? Reads::kHeldBack : Reads::kEarly;
    return is_better ? held_back : early;
  }

  std::optional<Execution> judge(const PlanBuilder& builder, Known& known, double worth = 1) const {
    plan::Plan plan = plan_of(builder);
    const Result<simulate::Run> run = simulator_.run(plan);
    if (!run.ok()) {
      known.failure = Status(ErrorCode::kInternal, "a plan that cannot be executed");
      return std::nullopt;
    }
    Execution execution = execution_of(problem_.trace, *run);
    const int64_t written_bytes = builder.ssd_bytes_written();
    const bool within_budget = written_bytes <= problem_.limits.write_budget_bytes.value_or(
                                                    std::numeric_limits<int64_t>::max());
    known.keep(std::move(plan), execution, worth, written_bytes, within_budget);
    return execution;
  }

  const Problem& problem_;
  const plan::Limits unlimited_;
  const Problem free_problem_;
  const simulate::Simulator simulator_;  // also of plans that write more than the budget
  const SteadyClock clock_;
  const std::vector<double> ideal_ns_;
  const bool best_effort_;
  const int64_t deadline_ns_;
  std::vector<uint8_t> reserved_epochs_;  // see PlanBuilderOptions; of the least cover
  std::vector<uint8_t> host_periods_;
  Known known_;
};

}  // namespace

Result<plan::Plan> search_plan(const Problem& problem, const PlannerOptions& options) {
  return Search(problem, options).run();
}

}  // namespace teraio::planner
