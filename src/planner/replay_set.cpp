#include "planner/replay_set.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "planner/replay_chains.h"
#include "planner/selection.h"
#include "trace/flat_lists.h"

namespace teraio::planner {
namespace {

constexpr double kTolerance = 0.05;  // of the greedy choice of transfers: see select_in_time()
// A tensor that comes back early is discarded again when more of its period is left.
constexpr double kLeftShareMin = 0.5;

hardware::Hardware with_share_of_bandwidth(hardware::Hardware hardware, double share) {
  const auto scale = [share](Rates& rates) {
    const auto scaled = [share](int64_t rate) {
      return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(rate) * share));
    };
    rates = {scaled(rates.read_bytes_per_second), scaled(rates.write_bytes_per_second)};
  };
  scale(hardware.device_link);
  if (hardware.host.capacity_bytes > 0) scale(hardware.host.rates);
  for (hardware::Drive& drive : hardware.drives) scale(drive.rates);
  return hardware;
}

// The most expensive replays per byte first.
void sort_by_cost(std::vector<int32_t>& chosen, const std::vector<ReplayCandidate>& candidates) {
  const auto cost = [&](int32_t i) {
    return candidates[i].replay_ns / static_cast<double>(candidates[i].size_bytes);
  };
  std::ranges::sort(
      chosen, [&](int32_t a, int32_t b) { return std::pair(cost(a), a) > std::pair(cost(b), b); });
}

class Chooser {
 public:
  Chooser(const Problem& problem, const std::vector<ReplayCandidate>& candidates,
          const ReplaySetOptions& options, const std::vector<double>& op_ns)
      : problem_(problem),
        candidates_(candidates),
        options_(options),
        op_ns_(op_ns),
        chains_(problem, candidates, op_ns),
        is_chosen_(candidates.size()) {
    left_bytes_ = bytes_left_to_moves();
  }

  std::vector<int32_t> run() {
    if (options_.cheap_first) {
      MemoryCurve excess = excess_beside({});
      add_greedily(excess, [](const ReplayCandidate& c) { return c.cost_share < kCheapCostShare; });
    }
    MemoryCurve excess =
        options_.transfer_share > 0 ? excess_after_transfers() : excess_beside(chosen_);
    add_greedily(excess, [this](const ReplayCandidate& c) { return is_wanted(c); });
    give_back(excess);
    return chosen_;
  }

 private:
  const trace::InactivePeriod& period(int32_t i) const { return problem_.lifetimes.periods[i]; }

  bool is_wanted(const ReplayCandidate& candidate) const {
    return candidate.cost_share < options_.cost_share_max;
  }

  // The tensors of a candidate leave (sign -1) or stay (+1) until its replay.
  void change(MemoryCurve& excess, const ReplayCandidate& candidate, int sign) const {
    for (int32_t i : candidate.periods)
      excess.add(period(i).first, candidate.end, sign * problem_.size_bytes(i));
  }

  int64_t bytes_left_to_moves() const {
    if (options_.moved_share == 0) return 0;
    std::vector<int32_t> wanted;
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (is_wanted(candidates_[i])) wanted.push_back(static_cast<int32_t>(i));
    const auto least = static_cast<double>(std::max<int64_t>(excess_beside(wanted).max(), 0));
    const auto most = static_cast<double>(excess_beside({}).max());
    return static_cast<int64_t>(least + options_.moved_share * (most - least));
  }

  // The bytes above the budget, and above those that are left to moves, with these candidates
  // discarded and nothing moved.
  MemoryCurve excess_beside(const std::vector<int32_t>& discarded) const {
    std::vector<int64_t> excess = problem_.lifetimes.footprint_bytes;
    double start_ns = 0;
    for (size_t k = 0; k < excess.size(); ++k) {
      excess[k] -= problem_.budget_bytes() + (start_ns < options_.first_ns ? 0 : left_bytes_);
      start_ns += op_ns_[k];
    }
    std::vector<double> weights = op_ns_;
    for (double& weight : weights) weight = std::max(weight, 1.0);
    MemoryCurve curve(excess, weights);
    for (int32_t i : discarded) change(curve, candidates_[i], -1);
    return curve;
  }

  MemoryCurve excess_after_transfers() const {
    const hardware::Hardware hardware =
        with_share_of_bandwidth(problem_.hardware, options_.transfer_share);
    const Problem problem{problem_.trace, problem_.index, problem_.lifetimes, hardware,
                          problem_.limits};
    PlanBuilderOptions options;
    options.op_ns = op_ns_;
    options.fixed_periods.resize(problem_.lifetimes.periods.size());
    for (const ReplayCandidate& candidate : candidates_)
      for (int32_t i : candidate.periods) options.fixed_periods[i] = is_wanted(candidate);
    options.discarded_periods = periods_of(candidates_, chosen_);
    PlanBuilder builder(problem, std::move(options));
    select_in_time(builder, kTolerance);
    return builder.excess();
  }

  double score(int32_t i, const MemoryCurve& excess) const {
    const ReplayCandidate& candidate = candidates_[i];
    double relief = 0;
    for (int32_t p : candidate.periods)
      relief += excess.relief(period(p).first, candidate.end, problem_.size_bytes(p));
    return relief / std::max(candidate.replay_ns, 1.0);
  }

  // A score that was computed earlier is an upper bound, because pressure only decreases.
  template <typename Allowed>
  void add_greedily(MemoryCurve& excess, Allowed allowed) {
    std::priority_queue<std::pair<double, int32_t>> queue;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const auto candidate = static_cast<int32_t>(i);
      if (allowed(candidates_[i]) && !is_chosen_[i])
        queue.push({score(candidate, excess), -candidate});
    }
    while (excess.max() > 0 && !queue.empty()) {
      const int32_t candidate = -queue.top().second;
      queue.pop();
      const double now = score(candidate, excess);
      if (now <= 0) continue;
      if (!queue.empty() && now < queue.top().first) {
        queue.push({now, -candidate});
        continue;
      }
      if (!chains_.allow(candidate)) continue;
      chains_.choose(candidate);
      chosen_.push_back(candidate);
      is_chosen_[candidate] = true;
      change(excess, candidates_[candidate], -1);
    }
  }

  // Gives back replays that no op needs.
  void give_back(MemoryCurve& excess) {
    sort_by_cost(chosen_, candidates_);
    std::erase_if(chosen_, [&](int32_t i) {
      change(excess, candidates_[i], 1);
      const bool is_needed = std::ranges::any_of(candidates_[i].periods, [&](int32_t p) {
        return excess.max(period(p).first, candidates_[i].end) > 0;
      });
      if (is_needed) change(excess, candidates_[i], -1);
      return !is_needed;
    });
    std::ranges::sort(chosen_);
  }

  const Problem& problem_;
  const std::vector<ReplayCandidate>& candidates_;
  const ReplaySetOptions& options_;
  const std::vector<double>& op_ns_;
  ReplayChains chains_;
  std::vector<int32_t> chosen_;
  std::vector<uint8_t> is_chosen_;  // per candidate
  int64_t left_bytes_ = 0;          // that may stay above the budget
};

// Walks over the ops and makes tensors again where an op or a replay first needs them.
class ActionWriter {
 public:
  ActionWriter(const Problem& problem, const std::vector<int32_t>& periods)
      : problem_(problem),
        period_of_(problem.index.tensor_count(), kNone),
        temporary_for_(problem.index.tensor_count(), -1) {
    begin_at_ = trace::FlatLists<int32_t>(problem.index.op_count() + 1, [&](auto add) {
      for (int32_t i : periods) add(static_cast<size_t>(problem.lifetimes.periods[i].first), i);
    });
    for (double ns : problem.op_ns()) start_ns_.push_back(start_ns_.back() + ns);
  }

  plan::Plan run() {
    plan_.trace = problem_.trace.name;
    for (size_t k = 0; k < problem_.index.op_count(); ++k) {
      const auto op = static_cast<trace::OpIndex>(k);
      for (int32_t i : begin_at_[k]) discard(i, op, plan_.migrations.size());
      const size_t first = plan_.migrations.size();
      for (trace::TensorIndex tensor : problem_.index.active[op]) make_again(tensor, op);
      for (int32_t i : std::exchange(again_, {})) discard(i, op, after_last_reader(i, first));
    }
    return std::move(plan_);
  }

 private:
  static constexpr int32_t kNone = -1;

  void discard(int32_t period, trace::OpIndex op, size_t position) {
    const trace::TensorIndex tensor = problem_.lifetimes.periods[period].tensor;
    plan_.migrations.insert(plan_.migrations.begin() + static_cast<ptrdiff_t>(position),
                            {tensor, plan::Action::kDiscard, op, op});
    period_of_[tensor] = period;
  }

  // The position after the last action, from `first` on, whose replay makes or reads the tensor.
  size_t after_last_reader(int32_t period, size_t first) const {
    const trace::TensorIndex tensor = problem_.lifetimes.periods[period].tensor;
    size_t position = plan_.migrations.size();
    while (position > first && !uses(plan_.migrations[position - 1], tensor)) --position;
    return position;
  }

  bool uses(const plan::Migration& action, trace::TensorIndex tensor) const {
    if (action.action != plan::Action::kRecompute) return false;
    const trace::Op& op = problem_.trace.ops[producer_of(action.tensor)];
    return std::ranges::find(op.reads, tensor) != op.reads.end() ||
           std::ranges::find(op.writes, tensor) != op.writes.end();
  }

  trace::OpIndex producer_of(trace::TensorIndex tensor) const {
    return problem_.index.uses[tensor].front().op;
  }

  void make_again(trace::TensorIndex tensor, trace::OpIndex op) {
    const trace::TraceIndex& index = problem_.index;
    const bool is_freed = !index.persistent[tensor] && index.last_op[tensor] < op;
    if (is_freed ? temporary_for_[tensor] == op : period_of_[tensor] == kNone) return;
    if (is_freed) temporary_for_[tensor] = op;
    const trace::Op& producer = problem_.trace.ops[producer_of(tensor)];
    for (trace::TensorIndex input : producer.reads) make_again(input, op);
    plan_.migrations.push_back({tensor, plan::Action::kRecompute, op, op});
    for (trace::TensorIndex output : producer.writes)
      if (index.exists_before(output, op)) bring_back(output, op);
  }

  // A tensor that comes back only because a replay reads or makes it leaves again after that.
  void bring_back(trace::TensorIndex tensor, trace::OpIndex op) {
    const int32_t period = std::exchange(period_of_[tensor], kNone);
    if (period != kNone && is_far_from_end(problem_.lifetimes.periods[period], op))
      again_.push_back(period);
  }

  bool is_far_from_end(const trace::InactivePeriod& period, trace::OpIndex op) const {
    const double left_ns = start_ns_[period.end] - start_ns_[op];
    return left_ns > kLeftShareMin * (start_ns_[period.end] - start_ns_[period.first]);
  }

  const Problem& problem_;
  trace::FlatLists<int32_t> begin_at_;         // per op: the periods that begin before it
  std::vector<double> start_ns_ = {0};         // per op, and the end
  std::vector<int32_t> period_of_;             // per tensor: that it is discarded in
  std::vector<int32_t> again_;                 // periods that go on after the present op
  std::vector<trace::OpIndex> temporary_for_;  // per tensor: the op that has its temporary
  plan::Plan plan_;
};

}  // namespace

std::vector<int32_t> choose_replays(const Problem& problem,
                                    const std::vector<ReplayCandidate>& candidates,
                                    const ReplaySetOptions& options,
                                    const std::vector<double>& op_ns) {
  return Chooser(problem, candidates, options, op_ns).run();
}

std::vector<int32_t> without_movable(const Problem& problem,
                                     const std::vector<ReplayCandidate>& candidates,
                                     const std::vector<int32_t>& periods,
                                     const std::vector<double>& op_ns) {
  std::vector<int32_t> chosen;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (std::ranges::binary_search(periods, candidates[i].periods.front()))
      chosen.push_back(static_cast<int32_t>(i));
  if (chosen.empty()) return {};
  PlanBuilderOptions options;
  options.op_ns = op_ns;
  options.discarded_periods = periods;
  options.fixed_periods.resize(problem.lifetimes.periods.size());
  for (int32_t i : periods) options.fixed_periods[i] = true;
  PlanBuilder builder(problem, std::move(options));
  select_in_time(builder, kTolerance);
  sort_by_cost(chosen, candidates);
  std::erase_if(chosen, [&](int32_t i) { return builder.move_instead(candidates[i].periods); });
  return periods_of(candidates, chosen);
}

std::vector<int32_t> periods_of(const std::vector<ReplayCandidate>& candidates,
                                const std::vector<int32_t>& chosen) {
  std::vector<int32_t> periods;
  for (int32_t i : chosen)
    periods.insert(periods.end(), candidates[i].periods.begin(), candidates[i].periods.end());
  std::ranges::sort(periods);
  return periods;
}

plan::Plan replay_actions(const Problem& problem, const std::vector<int32_t>& periods) {
  return ActionWriter(problem, periods).run();
}

}  // namespace teraio::planner
