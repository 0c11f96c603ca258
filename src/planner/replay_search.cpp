#include "planner/replay_search.h"

#include <algorithm>
#include <array>
#include <future>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "planner/replay_candidates.h"
#include "planner/replay_set.h"
#include "planner/run_beside.h"
#include "planner/search.h"
#include "simulate/replayed_trace.h"
#include "simulate/simulator.h"

namespace teraio::planner {
namespace {

constexpr double kAnyCost = std::numeric_limits<double>::infinity();
constexpr size_t kStretchedSets = 2;  // the first ones are chosen again on stretched timelines
constexpr std::array kFastSets = {
    ReplaySetOptions{.transfer_share = 1},
    ReplaySetOptions{.transfer_share = 1, .cheap_first = true},
    ReplaySetOptions{.transfer_share = 0, .cost_share_max = kCheapCostShare},
    ReplaySetOptions{.transfer_share = 0, .cost_share_max = kAnyCost}};
// Of long traces: those that are chosen in seconds, because no transfers are booked for them. The
// best share is between the first ones, and is looked for in these steps around the best one.
constexpr std::array kLongSets = {ReplaySetOptions{.cost_share_max = kAnyCost},
                                  ReplaySetOptions{.cost_share_max = 0.45},
                                  ReplaySetOptions{.cost_share_max = 0.3},
                                  ReplaySetOptions{.cost_share_max = kAnyCost, .moved_share = 0.2},
                                  ReplaySetOptions{.cost_share_max = kAnyCost, .moved_share = 0.4},
                                  ReplaySetOptions{.cost_share_max = kAnyCost, .moved_share = 0.6}};
using Sets = std::span<const ReplaySetOptions>;
constexpr std::array kShareSteps = {0.1, 0.05};
// Relays leave host memory to moves: sets that leave more of the pressure to these come first, and
// then those around the better one. In the first micro-batches, where relays still rest in host
// memory, replays leave nothing to moves, for the time in which the drives write this share of it.
constexpr std::array kMoreMoved = {0.15, 0.25};
constexpr double kFirstShare = 0.32;
constexpr double kFewWrites = 0.01;  // of the host memory: too few for relays
constexpr std::array kFurtherSets = {
    ReplaySetOptions{.transfer_share = 0.75, .cost_share_max = kCheapCostShare},
    ReplaySetOptions{.transfer_share = 0.75},
    ReplaySetOptions{.transfer_share = 0.75, .cheap_first = true},
    ReplaySetOptions{.transfer_share = 1, .cost_share_max = kAnyCost},
    ReplaySetOptions{.transfer_share = 2},
    ReplaySetOptions{.transfer_share = 0.5, .cost_share_max = kCheapCostShare},
    ReplaySetOptions{.transfer_share = 0.5, .cheap_first = true}};
// Rounds are spent on all approaches of short traces, and otherwise on the fastest by next use
// without relays, which may gain a quarter although relays are ahead.
constexpr size_t kShortTraceOps = 8'000;
constexpr size_t kRoundsApproaches = 2;
// The second one only when it takes at most this many times the fastest, which otherwise gets so
// many times the rounds.
constexpr double kHopefulRatio = 1.15;
constexpr int kRoundsAlone = 4;
constexpr int kStretchedRounds = 3;
// Of short traces, moves take the place of replays beside so many plans, of long ones beside two,
// otherwise beside one.
constexpr size_t kMovedApproachesShort = 3;
constexpr size_t kMovedApproachesLong = 2;
constexpr size_t kThoroughApproaches = 2;  // that are searched with Effort::kBest
constexpr int kWriteBudgets = 4;           // write budgets that are tried for fewer writes
constexpr double kSpeedSlack = 1.0005;     // Prefer::kSpeed: the same
constexpr double kLeastGain = 1e-4;        // a shorter step counts from here on
constexpr double kNearIdeal = 1.0005;      // the search ends at this many times the ideal

// What a plan of transfers starts from.
struct Approach {
  std::vector<int32_t> periods;  // that are discarded; empty: only transfers
  double moved_share = 0;        // ReplaySetOptions::moved_share of its set
  bool relays = false;           // see NextUseOptions
  bool operator==(const Approach&) const = default;
};

// An executed plan.
struct Outcome {
  plan::Plan plan;   // for the original trace
  plan::Plan moves;  // for the trace with the replays
  int64_t step_ns = 0;
  int64_t written_bytes = 0;
  std::vector<double> stretched_ns;  // per op: from the end of its predecessor to its own end
  Approach approach;
  Depth depth = Depth::kNextUse;  // of the search that found it
};

class ReplaySearch {
 public:
  ReplaySearch(const Problem& problem, const PlannerOptions& options)
      : problem_(problem),
        options_(options),
        simulator_(problem.trace, problem.hardware, problem.limits),
        deadline_ns_(clock_.now_ns() + time_limit_ns(options, problem.trace)),
        candidates_(find_replay_candidates(problem, options.recompute, problem.op_ns())) {}

  Result<plan::Plan> run() {
    const std::vector<double> ideal_ns = problem_.op_ns();
    // Under a write budget, plans by next use say little.
    const bool by_next_use = !problem_.limits.write_budget_bytes;
    const Depth depth = by_next_use ? Depth::kNextUse : Depth::kRounds;
    try_sets(is_long() ? Sets(kLongSets) : Sets(kFastSets), ideal_ns, depth);
    if (is_long() && by_next_use) try_relays(ideal_ns);
    if (is_long()) try_shares(ideal_ns, depth);
    if (by_next_use) spend_rounds(ideal_ns);
    if (by_next_use && !is_long()) try_on_stretched_timelines({});
    if (options_.effort == Effort::kBest) search_on(ideal_ns);
    if (outcomes_.empty()) return failure_;
    if (options_.prefer == Prefer::kWear) write_less();
    return std::move(outcomes_[preferred()].plan);
  }

 private:
  // Ends at the time limit.
  void search_on(const std::vector<double>& ideal_ns) {
    has_time_limit_ = true;
    try_approaches(for_rounds(fastest_approaches(outcomes_.size())), Depth::kRounds);
    if (is_long()) try_sets(kFastSets, ideal_ns, Depth::kRounds);
    try_sets(kFurtherSets, ideal_ns, Depth::kRounds);
    try_on_stretched_timelines(std::span(kFastSets).first(kStretchedSets));
    search_thoroughly();
  }

  void spend_rounds(const std::vector<double>& ideal_ns) {
    if (outcomes_.empty()) {
      // Plans by next use need more room on the tiers.
      failure_ = Status();
      return try_sets(is_long() ? std::span(kLongSets).first(1) : std::span(kFastSets), ideal_ns,
                      Depth::kRounds);
    }
    std::vector<Approach> approaches = for_rounds(fastest_approaches(outcomes_.size()));
    if (!is_short()) approaches.resize(std::min(approaches.size(), kRoundsApproaches));
    if (!is_short()) leave_out_hopeless(approaches);
    try_approaches(approaches, Depth::kRounds);
    round_factor_ = 1;
  }

  // Their relays are found for moves that do without. Those by next use start from relays.
  static std::vector<Approach> for_rounds(std::vector<Approach> approaches) {
    std::erase_if(approaches, [](const Approach& approach) { return approach.relays; });
    return approaches;
  }

  void leave_out_hopeless(std::vector<Approach>& approaches) {
    const double slowest_ns = kHopefulRatio * step_ns(approaches.front());
    const size_t left_out = std::erase_if(
        approaches, [&](const Approach& approach) { return step_ns(approach) > slowest_ns; });
    if (left_out > 0) round_factor_ = kRoundsAlone;
  }

  double step_ns(const Approach& approach) const {
    return static_cast<double>(best_of(approach)->step_ns);
  }

  bool is_short() const { return problem_.trace.ops.size() <= kShortTraceOps; }
  bool is_long() const { return problem_.trace.ops.size() > kLongTraceOps; }
  int64_t left_ns() const { return std::max<int64_t>(deadline_ns_ - clock_.now_ns(), 1); }
  bool is_late() const {
    if (options_.stop != nullptr && *options_.stop) return true;
    return has_time_limit_ && clock_.now_ns() > deadline_ns_;
  }

  bool is_done() const {
    if (outcomes_.empty()) return false;
    if (is_late()) return true;
    const auto ideal_ns = static_cast<double>(problem_.index.ideal_ns);
    return options_.prefer == Prefer::kSpeed &&
           static_cast<double>(outcomes_[fastest()].step_ns) <= kNearIdeal * ideal_ns;
  }

  size_t fastest() const {
    const auto least =
        std::ranges::min_element(outcomes_, {}, [](const Outcome& o) { return o.step_ns; });
    return least - outcomes_.begin();
  }

  double best_known_ns() const {
    return outcomes_.empty() ? kAnyCost : static_cast<double>(outcomes_[fastest()].step_ns);
  }

  // The outcome with the fewest bytes written among those that are fast enough.
  size_t preferred() const {
    size_t best = fastest();
    for (size_t i = 0; i < outcomes_.size(); ++i)
      if (is_fast(outcomes_[i]) && outcomes_[i].written_bytes < outcomes_[best].written_bytes)
        best = i;
    return best;
  }

  bool is_fast(const Outcome& outcome) const {
    const double slack = options_.prefer == Prefer::kWear ? kWearSlack : kSpeedSlack;
    return static_cast<double>(outcome.step_ns) <=
           slack * static_cast<double>(outcomes_[fastest()].step_ns);
  }

  // Tries the sets two at a time, the first one beside a plan without replays.
  void try_sets(std::span<const ReplaySetOptions> sets, const std::vector<double>& op_ns,
                Depth depth) {
    std::vector<Approach> approaches = {{}};
    for (const ReplaySetOptions& set : sets) {
      if (is_late()) break;
      std::vector<int32_t> periods = choose(set, op_ns);
      if (std::ranges::find(approaches, periods, &Approach::periods) == approaches.end())
        approaches.push_back({std::move(periods), set.moved_share});
    }
    try_approaches(approaches, depth);
  }

  void try_shares(const std::vector<double>& op_ns, Depth depth) {
    for (double step : kShareSteps) {
      if (outcomes_.empty() || outcomes_[fastest()].approach.relays) return;
      const double share = outcomes_[fastest()].approach.moved_share;
      const std::array around = {
          ReplaySetOptions{.cost_share_max = kAnyCost, .moved_share = std::max(share - step, 0.0)},
          ReplaySetOptions{.cost_share_max = kAnyCost, .moved_share = share + step}};
      try_sets(around, op_ns, depth);
    }
  }

  void try_relays(const std::vector<double>& op_ns) {
    const auto host_bytes = static_cast<double>(problem_.tier_capacity_bytes(plan::Tier::kHost));
    if (outcomes_.empty() || host_bytes == 0 ||
        static_cast<double>(outcomes_[fastest()].written_bytes) < kFewWrites * host_bytes)
      return;
    const double share = outcomes_[fastest()].approach.moved_share;
    try_relays(op_ns, share + kMoreMoved[0], share + kMoreMoved[1]);
    if (!outcomes_[fastest()].approach.relays) return;
    const double best_share = outcomes_[fastest()].approach.moved_share;
    try_relays(op_ns, best_share - kShareSteps.back(), best_share + kShareSteps.back());
    std::vector<Approach> approaches;
    for (Approach& approach : fastest_approaches(kMovedApproachesLong)) {
      approach.periods =
          without_movable(problem_, candidates_, approach.periods, best_of(approach)->stretched_ns);
      approaches.push_back(std::move(approach));
    }
    try_approaches(std::move(approaches), Depth::kNextUse);
  }

  void try_relays(const std::vector<double>& op_ns, double first_share, double second_share) {
    const auto host_bytes = static_cast<double>(problem_.tier_capacity_bytes(plan::Tier::kHost));
    const Rates drives = hardware::ssd_rates(problem_.hardware);
    const double first_ns =
        kFirstShare * host_bytes / hardware::bytes_per_ns(drives.write_bytes_per_second);
    std::vector<Approach> approaches;
    for (double share : {first_share, second_share})
      approaches.push_back(
          {choose({.cost_share_max = kAnyCost, .moved_share = share, .first_ns = first_ns}, op_ns),
           share, true});
    try_approaches(approaches, Depth::kNextUse);
  }

  // Looks at both at the same time.
  void keep_pair(const Approach& first, const Approach& second, Depth depth) {
    std::future<Result<Outcome>> beside;
    const auto look_at = [this, depth](const Approach& approach) {
      return plan_for(approach, depth, left_ns());
    };
    if (second != first)
      beside = run_beside([&] { return look_at(second); }, options_.uses_one_thread);
    Result<Outcome> outcome = look_at(first);
    if (beside.valid()) beside.wait();  // it reads outcomes_
    keep(std::move(outcome));
    if (beside.valid()) keep(beside.get());
  }

  void keep(Result<Outcome> outcome) {
    if (outcome.ok()) return outcomes_.push_back(std::move(*outcome));
    if (failure_.ok()) failure_ = outcome.status();
  }

  std::vector<int32_t> choose(const ReplaySetOptions& set, const std::vector<double>& op_ns) const {
    return periods_of(candidates_, choose_replays(problem_, candidates_, set, op_ns));
  }

  // The replays of the fastest plans, each without those whose tensors idle channels can move on
  // its timeline; and the sets on the timeline of the fastest one.
  void try_on_stretched_timelines(std::span<const ReplaySetOptions> sets) {
    for (int round = 0; round < kStretchedRounds && !is_done() && !outcomes_.empty(); ++round) {
      const Outcome& best = outcomes_[fastest()];
      const auto before_ns = static_cast<double>(best.step_ns);
      std::vector<Approach> approaches;
      for (const Approach& approach : fastest_approaches(is_short() ? kMovedApproachesShort : 1))
        approaches.push_back({without_movable(problem_, candidates_, approach.periods,
                                              best_of(approach)->stretched_ns)});
      for (const ReplaySetOptions& set : sets)
        approaches.push_back({choose(set, best.stretched_ns)});
      try_approaches(approaches, Depth::kRounds);
      if (static_cast<double>(outcomes_[fastest()].step_ns) > (1 - kLeastGain) * before_ns) return;
    }
  }

  // Two at a time; those that were not searched so far yet.
  void try_approaches(std::vector<Approach> approaches, Depth depth) {
    std::erase_if(approaches, [&](const Approach& approach) {
      const Outcome* known = best_of(approach);
      return known != nullptr && known->depth >= depth;
    });
    for (size_t i = 0; i < approaches.size() && !is_done(); i += 2)
      keep_pair(approaches[i], approaches[std::min(i + 1, approaches.size() - 1)], depth);
  }

  // Of the deepest search for the approach; null: there was none.
  const Outcome* best_of(const Approach& approach) const {
    const Outcome* best = nullptr;
    for (const Outcome& outcome : outcomes_)
      if (outcome.approach == approach && (best == nullptr || outcome.depth >= best->depth))
        best = &outcome;
    return best;
  }

  // The best approach is the most likely to stay the best. write_less() needs a part of the time
  // too.
  void search_thoroughly() {
    const std::vector<Approach> approaches = fastest_approaches(kThoroughApproaches);
    for (size_t i = 0; i < approaches.size() && !is_done(); ++i) {
      int64_t time_limit_ns = left_ns();
      if (i + 1 < approaches.size() || options_.prefer == Prefer::kWear)
        time_limit_ns = time_limit_ns * 2 / 3;
      keep(plan_for(approaches[i], Depth::kThorough, time_limit_ns));
    }
  }

  // Returns the approaches of the fastest plans, without repetition.
  std::vector<Approach> fastest_approaches(size_t most) const {
    std::vector<const Outcome*> order;
    for (const Outcome& outcome : outcomes_) order.push_back(&outcome);
    std::ranges::stable_sort(order, {}, [](const Outcome* outcome) { return outcome->step_ns; });
    std::vector<Approach> fastest;
    for (const Outcome* outcome : order)
      if (fastest.size() < most && std::ranges::find(fastest, outcome->approach) == fastest.end())
        fastest.push_back(outcome->approach);
    return fastest;
  }

  // Looks for the least write budget under which the preferred set is fast enough.
  void write_less() {
    const Outcome& lean = outcomes_[preferred()];
    const Approach approach = lean.approach;
    double high = static_cast<double>(lean.written_bytes);
    double low = 0;
    for (int i = 0; i < kWriteBudgets && high > 0 && !is_late(); ++i) {
      const double middle = i == 0 ? 0.9 * high : (low + high) / 2;
      plan::Limits limits = problem_.limits;
      limits.write_budget_bytes = static_cast<int64_t>(middle);
      Result<Outcome> outcome = plan_within(limits, approach, Depth::kRounds, left_ns());
      if (outcome.ok() && is_fast(*outcome))
        high = static_cast<double>(outcome->written_bytes);
      else
        low = middle;
      if (outcome.ok()) keep(std::move(outcome));
    }
  }

  Result<Outcome> plan_for(const Approach& approach, Depth depth, int64_t time_limit_ns) const {
    return plan_within(problem_.limits, approach, depth, time_limit_ns);
  }

  // Plans the transfers beside the replays of the approach.
  Result<Outcome> plan_within(const plan::Limits& limits, const Approach& approach, Depth depth,
                              int64_t time_limit_ns) const {
    const Outcome* known = best_of(approach);
    const plan::Plan* start = known == nullptr ? nullptr : &known->moves;
    const SearchOptions search_options = {depth,           time_limit_ns,  options_.uses_one_thread,
                                          options_.stop,   round_factor_,  start,
                                          approach.relays, best_known_ns()};
    if (approach == Approach{}) {
      Result<plan::Plan> plan = search_plan(problem_.under(limits), search_options);
      if (!plan.ok()) return plan.status();
      return outcome_of(*plan, *plan, approach, depth);
    }
    const plan::Plan actions = replay_actions(problem_, approach.periods);
    const std::optional<simulate::ReplayedTrace> replayed =
        simulate::replay_trace(problem_.trace, problem_.index, actions);
    if (!replayed) return Status(ErrorCode::kInternal, "replays that are not legal");
    const auto search = [&](const Problem& problem) -> Result<plan::Plan> {
      if (problem.everything_fits()) return plan::Plan{problem.trace.name, {}};
      return search_plan(problem, search_options);
    };
    const Result<plan::Plan> moves =
        solve_problem<plan::Plan>(replayed->trace, problem_.hardware, limits, search);
    if (!moves.ok()) return moves.status();
    return outcome_of(with_moves(*replayed, actions, *moves), *moves, approach, depth);
  }

  Result<Outcome> outcome_of(plan::Plan plan, plan::Plan moves, const Approach& approach,
                             Depth depth) const {
    const Result<simulate::Run> run = simulator_.run(plan);
    if (!run.ok()) return run.status();
    Outcome outcome{std::move(plan),
                    std::move(moves),
                    run->step_ns,
                    run->ssd_bytes_written,
                    {},
                    approach,
                    depth};
    int64_t end_ns = 0;
    for (size_t k = 0; k < run->op_start_ns.size(); ++k) {
      const int64_t next_ns = run->op_start_ns[k] + problem_.index.duration_ns[k];
      outcome.stretched_ns.push_back(static_cast<double>(next_ns - std::exchange(end_ns, next_ns)));
    }
    return outcome;
  }

  const Problem& problem_;
  const PlannerOptions options_;
  const simulate::Simulator simulator_;
  const SteadyClock clock_;
  const int64_t deadline_ns_;
  const std::vector<ReplayCandidate> candidates_;
  bool has_time_limit_ = false;
  int round_factor_ = 1;
  std::vector<Outcome> outcomes_;
  Status failure_;
};

}  // namespace

Result<plan::Plan> search_replays(const Problem& problem, const PlannerOptions& options) {
  return ReplaySearch(problem, options).run();
}

}  // namespace teraio::planner
