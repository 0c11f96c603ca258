#include "planner/replay_set.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "planner/selection.h"
#include "trace/flat_lists.h"

namespace teraio::planner {
namespace {

constexpr double kTolerance = 0.05;  // of the greedy choice of transfers: see select_in_time()

hardware::Hardware with_share_of_bandwidth(hardware::Hardware hardware, double share) {
  const auto scale = [share](hardware::Rates& rates) {
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

class Chooser {
 public:
  Chooser(const Problem& problem, const std::vector<ReplayCandidate>& candidates,
          const ReplaySetOptions& options, const std::vector<double>& op_ns)
      : problem_(problem),
        candidates_(candidates),
        options_(options),
        op_ns_(op_ns),
        is_chosen_(candidates.size()) {}

  std::vector<int32_t> run() {
    if (options_.cheap_first) {
      MemoryCurve excess = excess_beside({});
      add_greedily(excess, [](const ReplayCandidate& c) { return c.is_cheap; });
    }
    MemoryCurve excess =
        options_.transfer_share > 0 ? excess_after_transfers() : excess_beside(chosen_);
    add_greedily(excess,
                 [this](const ReplayCandidate& c) { return c.is_cheap || !options_.only_cheap; });
    give_back(excess);
    return chosen_;
  }

 private:
  const trace::InactivePeriod& period(int32_t candidate) const {
    return problem_.lifetimes.periods[candidates_[candidate].period];
  }

  // The bytes above the budget with these candidates discarded and nothing moved.
  MemoryCurve excess_beside(const std::vector<int32_t>& discarded) const {
    std::vector<int64_t> excess = problem_.lifetimes.footprint_bytes;
    for (int64_t& bytes : excess) bytes -= problem_.budget_bytes();
    std::vector<double> weights = op_ns_;
    for (double& weight : weights) weight = std::max(weight, 1.0);
    MemoryCurve curve(excess, weights);
    for (int32_t i : discarded)
      curve.add(period(i).first, period(i).end, -candidates_[i].size_bytes);
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
      options.fixed_periods[candidate.period] = candidate.is_cheap || !options_.only_cheap;
    for (int32_t i : chosen_) options.discarded_periods.push_back(candidates_[i].period);
    PlanBuilder builder(problem, std::move(options));
    select_in_time(builder, kTolerance);
    return builder.excess();
  }

  double score(int32_t i, const MemoryCurve& excess) const {
    const ReplayCandidate& candidate = candidates_[i];
    const double relief = excess.relief(period(i).first, period(i).end, candidate.size_bytes);
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
      chosen_.push_back(candidate);
      is_chosen_[candidate] = true;
      excess.add(period(candidate).first, period(candidate).end,
                 -candidates_[candidate].size_bytes);
    }
  }

  // Gives back replays that no op needs, the most expensive per byte first.
  void give_back(MemoryCurve& excess) {
    const auto cost = [this](int32_t i) {
      return candidates_[i].replay_ns / static_cast<double>(candidates_[i].size_bytes);
    };
    std::ranges::sort(chosen_, [&](int32_t a, int32_t b) {
      return std::pair(cost(a), a) > std::pair(cost(b), b);
    });
    std::erase_if(chosen_, [&](int32_t i) {
      const int64_t size_bytes = candidates_[i].size_bytes;
      if (excess.max(period(i).first, period(i).end) > -size_bytes) return false;
      excess.add(period(i).first, period(i).end, size_bytes);
      return true;
    });
    std::ranges::sort(chosen_);
  }

  const Problem& problem_;
  const std::vector<ReplayCandidate>& candidates_;
  const ReplaySetOptions& options_;
  const std::vector<double>& op_ns_;
  std::vector<int32_t> chosen_;
  std::vector<uint8_t> is_chosen_;  // per candidate
};

// Walks over the ops and makes tensors again where an op or a replay first needs them.
class ActionWriter {
 public:
  ActionWriter(const Problem& problem, const std::vector<int32_t>& periods)
      : problem_(problem),
        is_discarded_(problem.index.tensor_count()),
        temporary_for_(problem.index.tensor_count(), -1) {
    begin_at_ = trace::FlatLists<trace::TensorIndex>(problem.index.op_count() + 1, [&](auto add) {
      for (int32_t i : periods) {
        const trace::InactivePeriod& period = problem.lifetimes.periods[i];
        add(static_cast<size_t>(period.first), period.tensor);
      }
    });
  }

  plan::Plan run() {
    plan_.trace = problem_.trace.name;
    for (size_t k = 0; k < problem_.index.op_count(); ++k) {
      const auto op = static_cast<trace::OpIndex>(k);
      for (trace::TensorIndex tensor : begin_at_[k]) {
        plan_.migrations.push_back({tensor, plan::Action::kDiscard, op, op});
        is_discarded_[tensor] = true;
      }
      for (trace::TensorIndex tensor : problem_.index.active[op]) make_again(tensor, op);
    }
    return std::move(plan_);
  }

 private:
  void make_again(trace::TensorIndex tensor, trace::OpIndex op) {
    const trace::TraceIndex& index = problem_.index;
    const bool is_freed = !index.persistent[tensor] && index.last_op[tensor] < op;
    if (is_freed ? temporary_for_[tensor] == op : !is_discarded_[tensor]) return;
    if (is_freed) temporary_for_[tensor] = op;
    const trace::Op& producer = problem_.trace.ops[index.uses[tensor].front().op];
    for (trace::TensorIndex input : producer.reads) make_again(input, op);
    plan_.migrations.push_back({tensor, plan::Action::kRecompute, op, op});
    for (trace::TensorIndex output : producer.writes)
      if (index.exists_before(output, op)) is_discarded_[output] = false;
  }

  const Problem& problem_;
  trace::FlatLists<trace::TensorIndex> begin_at_;  // per op: discarded before it
  std::vector<uint8_t> is_discarded_;              // per tensor
  std::vector<trace::OpIndex> temporary_for_;      // per tensor: the op that has its temporary
  plan::Plan plan_;
};

}  // namespace

std::vector<int32_t> choose_replays(const Problem& problem,
                                    const std::vector<ReplayCandidate>& candidates,
                                    const ReplaySetOptions& options,
                                    const std::vector<double>& op_ns) {
  return Chooser(problem, candidates, options, op_ns).run();
}

plan::Plan replay_actions(const Problem& problem, const std::vector<int32_t>& periods) {
  return ActionWriter(problem, periods).run();
}

}  // namespace teraio::planner
