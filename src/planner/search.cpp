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
#include "planner/bounds.h"
#include "planner/min_write_set.h"
#include "planner/next_use.h"
#include "planner/run_beside.h"
#include "planner/search_config.h"
#include "planner/selection.h"
#include "simulate/simulator.h"

namespace teraio::planner {
namespace {

// With ReadTiming::kLimited, reads start at most this share of the step before they must.
constexpr double kReadAheadShare = 0.015;
// Early reads compensate for drives that are slow at times. A plan with limited read-ahead is
// preferred only when it takes less than this share of the step of the other plan.
constexpr double kLimitedReadsRatioMax = 0.995;
// The first of so many rounds may book all of the drives.
constexpr int kDriveShareRounds = 3;
// The search ends when a step takes at most this times the lower bound.
constexpr double kGoodEnough = 1.0002;
// A search ends when so many pairs of drawn configurations in a row gain nothing. On most traces
// the time limit ends it earlier.
constexpr int kIdlePairsMax = 100;
// Plans by next use settle after a few rounds.
constexpr int kNextUseRounds = 3;
constexpr int kRelayRounds = 2;  // with relays, which begin in the second one: more are no better
constexpr SearchConfig kNextUseConfig = {};
constexpr std::array kNextUse = {NextUseOptions{.reads_late = true},
                                 NextUseOptions{.headroom_share = 0.1, .reads_late = true}};
// Of long traces: their writes are late, and so are their reads.
constexpr std::array kLongNextUse = {NextUseOptions{.headroom_share = 0.05, .reads_late = true},
                                     NextUseOptions{.headroom_share = 0.1, .reads_late = true},
                                     NextUseOptions{.headroom_share = 0.2, .reads_late = true}};
constexpr std::array kThoroughNextUse = {
    NextUseOptions{}, NextUseOptions{.headroom_share = 0.1}, NextUseOptions{.headroom_share = 0.2},
    NextUseOptions{.headroom_share = 0.05, .reads_late = true}};
// The longest trace for which the minimum write set is tried without a write budget.
constexpr size_t kTinyTraceOps = 500;
// In long traces, plans by next use and the rounds of a configuration that begin with more than
// this many times the best step hardly ever become the best.
constexpr double kHopelessRatio = 1.1;
// Of plans that do not exist yet.
constexpr double kUnplannedNs = std::numeric_limits<double>::infinity();

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Returns the share of the time around each op during which ops wait. `reach`: how far around, as a
// share of the step.
std::vector<double> waiting_share(const std::vector<double>& ideal_ns,
                                  const std::vector<double>& stretched_ns, double reach) {
  const size_t count = ideal_ns.size();
  const double reach_ns = reach * sum(stretched_ns);
  std::vector<double> end_ns(3 * count + 1);  // three iterations in a row, so that spans may wrap
  std::vector<double> waited_ns(3 * count + 1);
  for (size_t i = 0; i < 3 * count; ++i) {
    end_ns[i + 1] = end_ns[i] + stretched_ns[i % count];
    waited_ns[i + 1] = waited_ns[i] + stretched_ns[i % count] - ideal_ns[i % count];
  }
  std::vector<double> shares(count);
  size_t low = 0;
  size_t high = 0;
  for (size_t k = count; k < 2 * count; ++k) {
    while (end_ns[low] < end_ns[k] - reach_ns) ++low;
    while (high < 3 * count && end_ns[high] < end_ns[k + 1] + reach_ns) ++high;
    const double span_ns = std::max(end_ns[high] - end_ns[low], 1.0);
    shares[k - count] = std::clamp((waited_ns[high] - waited_ns[low]) / span_ns, 0.0, 1.0);
  }
  return shares;
}

// Returns the price of time at each op, between price_floor and 1: it grows with the share of the
// time around the op during which ops stall.
std::vector<double> prices_of(const std::vector<double>& ideal_ns,
                              const std::vector<double>& stretched_ns, const SearchConfig& config) {
  std::vector<double> prices = waiting_share(ideal_ns, stretched_ns, config.price_reach);
  for (double& price : prices) price = config.price_floor + (1 - config.price_floor) * price;
  return prices;
}

// The simulated execution of a plan.
struct Execution {
  double step_ns = 0;
  std::vector<double> stretched_ns;  // per op: from the end of its predecessor to its own end
};

Execution execution_of(const trace::Trace& trace, const simulate::Run& run) {
  Execution execution{static_cast<double>(run.step_ns), {}};
  const std::vector<int64_t> stalls = stall_of_ops(run, trace);
  for (size_t k = 0; k < trace.ops.size(); ++k)
    execution.stretched_ns.push_back(static_cast<double>(stalls[k] + trace.ops[k].duration_ns));
  return execution;
}

// The best results of the rounds so far.
struct Incumbent {
  std::optional<plan::Plan> best;  // within the write budget
  double best_ns = kUnplannedNs;
  std::vector<double> timeline_ns;  // per op: of the fastest execution, else ideal
  double timeline_step_ns = kUnplannedNs;
  int64_t min_written_bytes = std::numeric_limits<int64_t>::max();
  Status failure;

  // Keeps the plan when it is within the write budget and its step takes less than `ratio_max`
  // times the best step.
  void offer(plan::Plan plan, const Execution& execution, double ratio_max, int64_t written_bytes,
             bool within_budget) {
    min_written_bytes = std::min(min_written_bytes, written_bytes);
    if (execution.step_ns < timeline_step_ns) {
      timeline_step_ns = execution.step_ns;
      timeline_ns = execution.stretched_ns;
    }
    if (!within_budget || execution.step_ns >= ratio_max * best_ns) return;
    best = std::move(plan);
    best_ns = execution.step_ns;
  }

  void merge(Incumbent other) {
    min_written_bytes = std::min(min_written_bytes, other.min_written_bytes);
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

// When reads start: as early as memory allows, or at most kReadAheadShare ahead. The first round of
// a configuration tries both; the later rounds use the better one.
enum class ReadTiming : uint8_t { kUndecided, kEarly, kLimited };

class Search {
 public:
  Search(const Problem& problem, const SearchOptions& options)
      : problem_(problem),
        unlimited_(without_write_budget(problem.limits)),
        free_problem_(problem.under(unlimited_)),
        simulator_(problem.trace, problem.hardware, unlimited_),
        ideal_ns_(problem.op_ns()),
        options_(options),
        deadline_ns_(clock_.now_ns() + options.time_limit_ns),
        least_ns_(options.depth == Depth::kThorough ? bound_of(problem) : sum(ideal_ns_)) {
    incumbent_.timeline_ns = ideal_ns_;
  }

  Result<plan::Plan> run() {
    if (problem_.limits.write_budget_bytes)
      TERAIO_RETURN_IF_ERROR(search_within_budget());
    else
      search_freely();
    if (incumbent_.best) return std::move(*incumbent_.best);
    return incumbent_.failure;
  }

 private:
  static double bound_of(const Problem& problem) {
    return static_cast<double>(
        lower_bounds(problem.trace, problem.hardware, problem.limits).best_ns());
  }

  static plan::Limits without_write_budget(plan::Limits limits) {
    limits.write_budget_bytes.reset();
    return limits;
  }

  bool is_thorough() const { return options_.depth == Depth::kThorough; }
  bool is_long() const { return problem_.trace.ops.size() > kLongTraceOps; }

  bool done(const Incumbent& incumbent) const {
    if (!incumbent.best) return false;
    if (incumbent.best_ns <= kGoodEnough * least_ns_) return true;
    if (options_.stop != nullptr && *options_.stop) return true;
    const bool has_time_limit = is_thorough() || problem_.limits.write_budget_bytes;
    return has_time_limit && clock_.now_ns() > deadline_ns_;
  }

  // Whether what has begun with this step is given up.
  bool is_hopeless(double step_ns, const Incumbent& incumbent) const {
    if (!is_long() || is_thorough()) return false;
    return step_ns > kHopelessRatio * std::min(incumbent.best_ns, options_.best_known_ns);
  }

  // Plans by next use are a start for the rounds.
  void search_freely() {
    if (options_.start != nullptr)
      evaluate_plan(*options_.start, incumbent_);
    else
      plan_by_next_use(is_long() ? std::span<const NextUseOptions>(kLongNextUse) : kNextUse);
    if (options_.depth == Depth::kNextUse) return;
    if (problem_.trace.ops.size() <= kTinyTraceOps) plan_few_writes();
    if (is_thorough()) plan_by_next_use(kThoroughNextUse);
    run_configs(is_thorough() ? best_configs() : fast_configs(has_relays()));
    if (is_thorough()) run_drawn_configs();
  }

  void plan_by_next_use(std::span<const NextUseOptions> variants) {
    for (const NextUseOptions& options : variants) {
      plan_by_next_use(options);
      if (is_hopeless(incumbent_.best_ns, incumbent_)) return;
    }
  }

  void plan_by_next_use(NextUseOptions options) {
    options.relays = options_.relays;
    NextUse next_use(problem_, options);
    const int rounds = options.relays ? kRelayRounds : kNextUseRounds;
    std::vector<double> op_ns = ideal_ns_;
    std::vector<double> prices;
    for (int round = 0; round < rounds && !done(incumbent_); ++round) {
      std::optional<plan::Plan> plan = next_use.next(Timeline(op_ns, prices));
      if (!plan) return;
      const std::optional<Execution> execution = evaluate_plan(std::move(*plan), incumbent_);
      if (!execution) return;
      op_ns = execution->stretched_ns;
      learn(prices, prices_of(ideal_ns_, op_ns, kNextUseConfig), kNextUseConfig.price_memory);
    }
  }

  // Where transfers take many times the compute, the fewest bytes are close to the fastest.
  void plan_few_writes() {
    const Result<MinWriteSet> write_set = find_min_write_set(problem_);
    if (write_set.ok()) evaluate(builder_of_write_set(*write_set), incumbent_);
  }

  bool budget_binds() const {
    return !incumbent_.best || incumbent_.best_ns > incumbent_.timeline_step_ns;
  }

  // Finds plans within the write budget, or returns the least sufficient budget as a failure. The
  // first round ignores the budget: it shows the timeline, and its plan may be within the budget.
  Status search_within_budget() {
    incumbent_ = run_config(fast_configs(false).front(), free_problem_, std::move(incumbent_));
    if (!budget_binds()) {
      if (is_thorough()) search_freely();
      return Status();
    }
    const Result<MinWriteSet> write_set = find_min_write_set(problem_);
    if (!write_set.ok()) return incumbent_.best ? Status() : write_set.status();
    if (write_set->ssd_bytes_written > *problem_.limits.write_budget_bytes)
      return incumbent_.best ? Status() : budget_too_small(write_set->ssd_bytes_written);
    reserved_epochs_ = write_set->writes_epoch;
    host_periods_ = write_set->host_periods;
    evaluate(builder_of_write_set(*write_set), incumbent_);
    run_configs(is_thorough() ? best_budget_configs() : fast_budget_configs());
    return Status();
  }

  Status budget_too_small(int64_t min_bytes) const {
    const int64_t least_bytes = std::min(min_bytes, incumbent_.min_written_bytes);
    return Status(
        ErrorCode::kOutOfSpace,
        fmt::format("a write budget of {} bytes per iteration is too small: the least that would "
                    "do is {}",
                    *problem_.limits.write_budget_bytes, least_bytes));
  }

  PlanBuilder builder_of_write_set(const MinWriteSet& write_set) const {
    PlanBuilderOptions options;
    options.op_ns = incumbent_.timeline_ns;
    PlanBuilder builder(problem_, std::move(options));
    apply_write_set(builder, write_set);
    prefetch_early(builder);
    return builder;
  }

  void run_configs(std::span<const SearchConfig> configs) {
    for (size_t i = 0; i < configs.size() && !done(incumbent_); i += 2)
      run_pair(configs[i], i + 1 < configs.size() ? &configs[i + 1] : nullptr);
  }

  void run_drawn_configs() {
    uint32_t number = 0;
    int idle_pairs = 0;
    while (idle_pairs < kIdlePairsMax && !done(incumbent_)) {
      const double before_ns = incumbent_.best_ns;
      const SearchConfig first = drawn_config(number++);
      const SearchConfig second = drawn_config(number++);
      run_pair(first, &second);
      idle_pairs = incumbent_.best_ns < before_ns ? 0 : idle_pairs + 1;
    }
  }

  // Both configurations start from the same incumbent, so that the result does not depend on which
  // one ends first.
  void run_pair(const SearchConfig& first, const SearchConfig* second) {
    std::future<Incumbent> beside;
    if (second != nullptr)
      beside = run_beside([this, second] { return run_config(*second, problem_, incumbent_); },
                          options_.uses_one_thread);
    Incumbent incumbent = run_config(first, problem_, incumbent_);
    if (beside.valid()) incumbent.merge(beside.get());
    incumbent_ = std::move(incumbent);
  }

  // Of rounds. In long traces, they gain nothing on plans by next use with relays.
  bool has_relays() const {
    return !is_long() && problem_.tier_capacity_bytes(plan::Tier::kSsd) > 0 &&
           problem_.tier_capacity_bytes(plan::Tier::kHost) > 0;
  }

  // Runs the rounds of a configuration, starting on the best timeline known.
  Incumbent run_config(const SearchConfig& config, const Problem& problem,
                       Incumbent incumbent) const {
    std::vector<double> op_ns = config.starts_ideal ? ideal_ns_ : incumbent.timeline_ns;
    std::vector<double> prices;
    if (!config.starts_ideal && incumbent.timeline_step_ns != kUnplannedNs)
      prices = prices_of(ideal_ns_, op_ns, config);
    ReadTiming reads = ReadTiming::kUndecided;
    const int rounds = config.rounds * (is_thorough() ? 1 : options_.round_factor);
    for (int round = 0; round < rounds && !done(incumbent); ++round) {
      const double drive_share = round % kDriveShareRounds == 0 ? 1 : config.drive_share;
      std::optional<Execution> execution =
          attempt(config, problem, op_ns, prices, drive_share, reads, incumbent);
      if (!execution || is_hopeless(execution->step_ns, incumbent)) break;
      op_ns = std::move(execution->stretched_ns);
      learn(prices, prices_of(ideal_ns_, op_ns, config), config.price_memory);
    }
    return incumbent;
  }

  static void learn(std::vector<double>& prices, const std::vector<double>& seen, double memory) {
    if (prices.empty()) prices = seen;
    for (size_t k = 0; k < prices.size(); ++k)
      prices[k] = memory * prices[k] + (1 - memory) * seen[k];
  }

  std::optional<Execution> attempt(const SearchConfig& config, const Problem& problem,
                                   const std::vector<double>& op_ns,
                                   const std::vector<double>& prices, double drive_share,
                                   ReadTiming& reads, Incumbent& incumbent) const {
    PlanBuilderOptions options;
    options.drive_share = drive_share;
    options.early_writes = config.early_writes;
    options.ssd_write_price = config.ssd_write_price;
    options.host_price = config.host_price;
    options.latency_share_max = config.latency_share_max;
    options.reserved_epochs = reserved_epochs_;
    if (config.reserves_host) options.reserved_host_periods = host_periods_;
    options.op_ns = op_ns;
    options.read_price = prices;
    if (config.prices_writes) options.write_price = prices;
    options.op_weights = prices;
    for (size_t k = 0; k < prices.size(); ++k) options.op_weights[k] *= op_ns[k];
    PlanBuilder builder(problem, std::move(options));
    select_in_time(builder, config.tolerance, config.headroom_share);
    if (Status status = select_to_fit(builder, config.tolerance); !status.ok()) {
      incumbent.failure = status;
      return std::nullopt;
    }
    if (config.headroom_share == 0) revert_unneeded(builder);
    std::optional<Execution> direct = evaluate_reads(builder, op_ns, reads, incumbent);
    if (!direct || done(incumbent) || !has_relays() || !relay_writes(builder, op_ns)) return direct;
    std::optional<Execution> relayed = evaluate_reads(builder, op_ns, reads, incumbent);
    return relayed && relayed->step_ns < direct->step_ns ? relayed : direct;
  }

  std::optional<Execution> evaluate_reads(PlanBuilder builder, const std::vector<double>& op_ns,
                                          ReadTiming& reads, Incumbent& incumbent) const {
    prefetch_early(builder);
    std::optional<Execution> early;
    if (reads != ReadTiming::kLimited) early = evaluate(builder, incumbent);
    if (reads == ReadTiming::kEarly || (early && done(incumbent))) return early;
    limit_read_ahead(builder, op_ns, kReadAheadShare * sum(op_ns));
    std::optional<Execution> limited = evaluate(builder, incumbent, kLimitedReadsRatioMax);
    const bool is_better =
        limited && (!early || limited->step_ns < kLimitedReadsRatioMax * early->step_ns);
    if (reads == ReadTiming::kUndecided)
      reads = is_better ? ReadTiming::kLimited : ReadTiming::kEarly;
    return is_better ? limited : early;
  }

  std::optional<Execution> evaluate(const PlanBuilder& builder, Incumbent& incumbent,
                                    double ratio_max = 1) const {
    return evaluate_plan(plan_of(builder), incumbent, ratio_max);
  }

  std::optional<Execution> evaluate_plan(plan::Plan plan, Incumbent& incumbent,
                                         double ratio_max = 1) const {
    const Result<simulate::Run> run = simulator_.run(plan);
    if (!run.ok()) {
      incumbent.failure = Status(ErrorCode::kInternal, "a plan that cannot be executed");
      return std::nullopt;
    }
    Execution execution = execution_of(problem_.trace, *run);
    const int64_t written_bytes = run->ssd_bytes_written;
    const bool within_budget = written_bytes <= problem_.limits.write_budget_bytes.value_or(
                                                    std::numeric_limits<int64_t>::max());
    incumbent.offer(std::move(plan), execution, ratio_max, written_bytes, within_budget);
    return execution;
  }

  const Problem& problem_;
  const plan::Limits unlimited_;
  const Problem free_problem_;
  const simulate::Simulator simulator_;  // without the write budget
  const SteadyClock clock_;
  const std::vector<double> ideal_ns_;
  const SearchOptions options_;
  const int64_t deadline_ns_;
  const double least_ns_;                 // no step is shorter
  std::vector<uint8_t> reserved_epochs_;  // of the minimum write set: see PlanBuilderOptions
  std::vector<uint8_t> host_periods_;
  Incumbent incumbent_;
};

}  // namespace

Result<plan::Plan> search_plan(const Problem& problem, const SearchOptions& options) {
  return Search(problem, options).run();
}

}  // namespace teraio::planner
