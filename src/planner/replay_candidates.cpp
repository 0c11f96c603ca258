#include "planner/replay_candidates.h"

#include <algorithm>

#include "simulate/channels.h"

namespace teraio::planner {
namespace {

// A replay above this share of moving its bytes is never worth it, one below the other is cheap.
constexpr double kCostShareMax = 0.6;
constexpr double kCheapShareMax = 0.1;
// The most replays that make one tensor again.
constexpr int kLongestChain = 12;
// Short periods are under pressure too, but a replay for them buys little room.
constexpr double kPeriodShareMax = 0.5;

// Returns the time that a byte takes to a tier and back when all tiers move bytes at once.
double move_ns_per_byte(const Problem& problem) {
  std::array<bool, simulate::kChannelCount> moving{};
  for (plan::Tier tier : {plan::Tier::kSsd, plan::Tier::kHost})
    for (bool out : {false, true})
      moving[simulate::channel_of(tier, out)] = problem.tier_capacity_bytes(tier) > 0;
  const auto rates = simulate::channel_rates(problem.hardware, moving);
  const auto both = [&rates](bool out) {
    return rates[simulate::channel_of(plan::Tier::kSsd, out)] +
           rates[simulate::channel_of(plan::Tier::kHost, out)];
  };
  const double out = both(true);
  const double in = both(false);
  return out > 0 && in > 0 ? 1 / out + 1 / in : 0;
}

class Finder {
 public:
  Finder(const Problem& problem, Recompute recompute, const std::vector<double>& op_ns)
      : problem_(problem),
        index_(problem.index),
        only_cheap_(recompute == Recompute::kCheap),
        move_ns_per_byte_(move_ns_per_byte(problem)),
        start_ns_{0} {
    for (double ns : op_ns) start_ns_.push_back(start_ns_.back() + ns);
  }

  std::vector<ReplayCandidate> run() {
    std::vector<ReplayCandidate> candidates;
    for (size_t i = 0; i < problem_.lifetimes.periods.size(); ++i) {
      const trace::InactivePeriod& period = problem_.lifetimes.periods[i];
      if (index_.persistent[period.tensor] || period.until_freed) continue;
      chain_.clear();
      if (!add_to_chain(period.tensor, static_cast<trace::OpIndex>(period.end))) continue;
      const ReplayCandidate candidate = candidate_of(static_cast<int32_t>(i));
      if (is_worth_it(candidate)) candidates.push_back(candidate);
    }
    return candidates;
  }

 private:
  ReplayCandidate candidate_of(int32_t index) const {
    double replay_ns = 0;
    for (trace::OpIndex op : chain_) replay_ns += static_cast<double>(index_.duration_ns[op]);
    const int64_t size_bytes = problem_.size_bytes(index);
    return {index, chain_.back(), replay_ns, size_bytes,
            replay_ns < kCheapShareMax * move_ns(size_bytes)};
  }

  // Adds the ops that make the tensor again before op `end`: its producer, after those that make
  // freed inputs again. Returns false when that is not possible.
  bool add_to_chain(trace::TensorIndex tensor, trace::OpIndex end) {
    const std::span<const trace::TensorUse> uses = index_.uses[tensor];
    const trace::OpIndex producer = uses.front().op;
    if (!uses.front().writes || is_written_between(tensor, producer, end)) return false;
    if (!problem_.trace.ops[producer].replayable || !changes_no_other(producer)) return false;
    for (trace::TensorIndex input : problem_.trace.ops[producer].reads) {
      if (is_written_between(input, producer, end)) return false;
      const bool is_freed = !index_.persistent[input] && index_.last_op[input] < end;
      if (is_freed && !add_to_chain(input, end)) return false;
    }
    if (std::ranges::find(chain_, producer) == chain_.end()) chain_.push_back(producer);
    return chain_.size() <= kLongestChain;
  }

  bool is_worth_it(const ReplayCandidate& candidate) const {
    const trace::InactivePeriod& period = problem_.lifetimes.periods[candidate.period];
    if (only_cheap_ && !candidate.is_cheap) return false;
    return candidate.replay_ns < kCostShareMax * move_ns(candidate.size_bytes) &&
           candidate.replay_ns <
               kPeriodShareMax * (start_ns_[period.end] - start_ns_[period.first]);
  }

  double move_ns(int64_t size_bytes) const {
    return move_ns_per_byte_ * static_cast<double>(size_bytes) +
           2 * static_cast<double>(problem_.hardware.request_latency_ns);
  }

  bool changes_no_other(trace::OpIndex producer) const {
    const auto& writes = problem_.trace.ops[producer].writes;
    return std::ranges::none_of(writes, [&](trace::TensorIndex output) {
      return index_.persistent[output] || index_.first_op[output] < producer;
    });
  }

  bool is_written_between(trace::TensorIndex tensor, trace::OpIndex after,
                          trace::OpIndex before) const {
    return std::ranges::any_of(index_.uses[tensor], [&](const trace::TensorUse& use) {
      return use.writes && use.op > after && use.op < before;
    });
  }

  const Problem& problem_;
  const trace::TraceIndex& index_;
  const bool only_cheap_;
  const double move_ns_per_byte_;
  std::vector<double> start_ns_;       // per op, and the end
  std::vector<trace::OpIndex> chain_;  // the replays of one candidate, in order
};

}  // namespace

std::vector<ReplayCandidate> find_replay_candidates(const Problem& problem, Recompute recompute,
                                                    const std::vector<double>& op_ns) {
  if (recompute == Recompute::kOff) return {};
  return Finder(problem, recompute, op_ns).run();
}

}  // namespace teraio::planner
