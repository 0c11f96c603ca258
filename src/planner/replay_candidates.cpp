#include "planner/replay_candidates.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <span>

#include "simulate/channels.h"

namespace teraio::planner {
namespace {

// A replay above this share of moving its bytes is never worth it.
constexpr double kCostShareMax = 0.6;
// The most replays that make one tensor again.
constexpr int kLongestChain = 12;
// Short periods are under pressure too, but a replay for them buys little room.
constexpr double kPeriodShareMax = 0.5;
// A tensor comes back ahead of its use when it is off the device for at least this share of its
// period.
constexpr double kCutPeriodShareMin = 0.5;

// Returns the time that a byte takes out and back when these tiers move bytes at once.
double move_ns_per_byte(const Problem& problem, std::initializer_list<plan::Tier> tiers) {
  std::array<bool, simulate::kChannelCount> moving{};
  for (plan::Tier tier : tiers)
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

// Returns the time that the last byte takes: what the host tier cannot hold goes to the drives, and
// without drives there is no place for it.
double last_move_ns_per_byte(const Problem& problem) {
  const int64_t away_bytes =
      std::ranges::max(problem.lifetimes.footprint_bytes) - problem.budget_bytes();
  if (problem.tier_capacity_bytes(plan::Tier::kHost) >= away_bytes)
    return move_ns_per_byte(problem, {plan::Tier::kSsd, plan::Tier::kHost});
  if (problem.tier_capacity_bytes(plan::Tier::kSsd) == 0)
    return std::numeric_limits<double>::infinity();
  return move_ns_per_byte(problem, {plan::Tier::kSsd});
}

class Finder {
 public:
  Finder(const Problem& problem, Recompute recompute, const std::vector<double>& op_ns)
      : problem_(problem),
        index_(problem.index),
        only_cheap_(recompute == Recompute::kCheap),
        move_ns_per_byte_(move_ns_per_byte(problem, {plan::Tier::kSsd, plan::Tier::kHost})),
        last_move_ns_per_byte_(last_move_ns_per_byte(problem)),
        start_ns_{0} {
    for (double ns : op_ns) start_ns_.push_back(start_ns_.back() + ns);
  }

  std::vector<ReplayCandidate> run() {
    std::vector<ReplayCandidate> candidates;
    for (const std::vector<int32_t>& periods : periods_by_producer())
      for (size_t i = 0; i < periods.size();) {
        const ReplayCandidate candidate = candidate_of(std::span(periods).subspan(i));
        i += candidate.periods.size();
        if (is_worth_it(candidate)) candidates.push_back(candidate);
      }
    std::ranges::sort(candidates, {}, [](const ReplayCandidate& c) { return c.periods.front(); });
    return candidates;
  }

 private:
  // Returns, per op, the periods that replays of it can end, by their ends.
  std::vector<std::vector<int32_t>> periods_by_producer() {
    std::vector<std::vector<int32_t>> by_producer(index_.op_count());
    for (size_t i = 0; i < problem_.lifetimes.periods.size(); ++i) {
      const trace::InactivePeriod& period = problem_.lifetimes.periods[i];
      if (index_.persistent[period.tensor] || period.until_freed) continue;
      chain_.clear();
      if (add_to_chain(period.tensor, static_cast<trace::OpIndex>(period.end)))
        by_producer[chain_.back()].push_back(static_cast<int32_t>(i));
    }
    for (std::vector<int32_t>& periods : by_producer)
      std::ranges::stable_sort(periods, {}, [this](int32_t i) { return period(i).end; });
    return by_producer;
  }

  // Returns the candidate of the first period, together with those right after it that the same
  // replay ends.
  ReplayCandidate candidate_of(std::span<const int32_t> periods) {
    ReplayCandidate candidate;
    candidate.end = period(periods.front()).end;
    for (int32_t i : periods) {
      if (away_ns(i, candidate.end) < kCutPeriodShareMin * away_ns(i, period(i).end)) break;
      candidate.periods.push_back(i);
      candidate.size_bytes += problem_.size_bytes(i);
    }
    chain_.clear();
    add_to_chain(period(periods.front()).tensor, static_cast<trace::OpIndex>(candidate.end));
    for (trace::OpIndex op : chain_) {
      candidate.replay_ns += static_cast<double>(index_.duration_ns[op]);
      for (trace::TensorIndex input : problem_.trace.ops[op].reads)
        if (!index_.persistent[input] && index_.last_op[input] >= candidate.end)
          candidate.inputs.push_back(input);
    }
    candidate.cost_share = candidate.replay_ns / move_ns(candidate, move_ns_per_byte_);
    return candidate;
  }

  const trace::InactivePeriod& period(int32_t i) const { return problem_.lifetimes.periods[i]; }

  // The time from the begin of the period to op `end`; negative when the period begins later.
  double away_ns(int32_t i, int64_t end) const {
    return start_ns_[end] - start_ns_[period(i).first];
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
    if (only_cheap_ && candidate.cost_share >= kCheapCostShare) return false;
    if (candidate.replay_ns >= kCostShareMax * move_ns(candidate, last_move_ns_per_byte_))
      return false;
    return std::ranges::any_of(candidate.periods, [&](int32_t i) {
      return candidate.replay_ns < kPeriodShareMax * away_ns(i, candidate.end);
    });
  }

  double move_ns(const ReplayCandidate& candidate, double ns_per_byte) const {
    return ns_per_byte * static_cast<double>(candidate.size_bytes) +
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
  const double last_move_ns_per_byte_;
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
