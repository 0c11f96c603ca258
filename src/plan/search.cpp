#include "plan/search.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "plan/selection.h"

namespace teraio {
namespace {

// A way to plan again and again, each time from what the last execution showed.
struct Chain {
  int rounds = 0;
  double tolerance = 0.05;     // of the greedy
  double price_floor = 0.1;    // what time costs where nothing stalls
  double price_window = 0.02;  // how far a stall is felt, as a part of the step
  double price_memory = 0.5;   // of the price of the rounds before
  bool early_writes = true;
};

constexpr std::array<Chain, 1> kFastChains = {Chain{.rounds = 3}};
constexpr std::array<Chain, 7> kBestChains = {
    Chain{.rounds = 10},
    Chain{.rounds = 10, .tolerance = 0.02, .price_floor = 0.05},
    Chain{.rounds = 8, .price_window = 0.005},
    Chain{.rounds = 8, .price_floor = 1.0},
    Chain{.rounds = 8, .tolerance = 0.01, .price_window = 0.05, .price_memory = 0.8},
    Chain{.rounds = 8, .early_writes = false},
    Chain{.rounds = 12, .tolerance = 0.0, .price_floor = 0.02, .price_memory = 0.7}};

// Nothing is left to gain when a step takes no more than this times the ideal.
constexpr double kGoodEnough = 1.0002;

std::vector<double> durations_of(const Trace& trace) {
  std::vector<double> durations;
  for (const Op& op : trace.ops) durations.push_back(static_cast<double>(op.duration_ns));
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

class Search {
 public:
  Search(const Problem& problem, const PlannerOptions& options, const Execute& execute)
      : problem_(problem),
        execute_(execute),
        ideal_ns_(durations_of(problem.trace)),
        best_effort_(options.effort == Effort::kBest),
        deadline_ns_(clock_.now_ns() + options.time_limit_ns) {}

  Result<Plan> run() {
    if (best_effort_)
      for (const Chain& chain : kBestChains) follow(chain);
    else
      for (const Chain& chain : kFastChains) follow(chain);
    if (best_) return std::move(*best_);
    return failure_;
  }

 private:
  bool done() const {
    if (!best_) return false;
    if (best_execution_.step_ns <= kGoodEnough * sum(ideal_ns_)) return true;
    return best_effort_ && clock_.now_ns() > deadline_ns_;
  }

  // From the ideal timeline, or the best one that is known.
  void follow(const Chain& chain) {
    std::vector<double> op_ns = best_ ? best_execution_.stretched_ns : ideal_ns_;
    std::vector<double> prices;
    if (best_) prices = prices_of(ideal_ns_, op_ns, chain);
    for (int round = 0; round < chain.rounds && !done(); ++round) {
      const std::optional<Execution> execution = attempt(chain, op_ns, prices);
      if (!execution) return;
      op_ns = execution->stretched_ns;
      learn(prices, prices_of(ideal_ns_, op_ns, chain), chain.price_memory);
    }
  }

  static void learn(std::vector<double>& prices, const std::vector<double>& seen, double memory) {
    if (prices.empty()) prices = seen;
    for (size_t k = 0; k < prices.size(); ++k)
      prices[k] = memory * prices[k] + (1 - memory) * seen[k];
  }

  std::optional<Execution> attempt(const Chain& chain, const std::vector<double>& op_ns,
                                   const std::vector<double>& prices) {
    DraftOptions options;
    options.early_writes = chain.early_writes;
    options.op_ns = op_ns;
    options.read_price = prices;
    options.op_weights = prices;
    for (size_t k = 0; k < prices.size(); ++k) options.op_weights[k] *= op_ns[k];
    Draft draft(problem_, std::move(options));
    select_in_time(draft, chain.tolerance);
    if (Status status = select_to_fit(draft, chain.tolerance); !status.ok()) {
      failure_ = status;
      return std::nullopt;
    }
    take_back_needless(draft);
    prefetch_early(draft);
    return judge(draft);
  }

  std::optional<Execution> judge(const Draft& draft) {
    Plan plan = plan_of(draft);
    std::optional<Execution> execution = execute_(draft, plan);
    if (!execution) {
      if (!best_) failure_ = Status(ErrorCode::kInternal, "a plan that cannot be executed");
      return std::nullopt;
    }
    if (!best_ || execution->step_ns < best_execution_.step_ns) {
      best_ = std::move(plan);
      best_execution_ = *execution;
    }
    return execution;
  }

  const Problem& problem_;
  const Execute& execute_;
  const SteadyClock clock_;
  const std::vector<double> ideal_ns_;
  const bool best_effort_;
  const int64_t deadline_ns_;
  std::optional<Plan> best_;
  Execution best_execution_;
  Status failure_;
};

}  // namespace

Result<Plan> search_plan(const Problem& problem, const PlannerOptions& options,
                         const Execute& execute) {
  return Search(problem, options, execute).run();
}

}  // namespace teraio
