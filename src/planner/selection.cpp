#include "planner/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <ranges>
#include <utility>

#include "planner/relay_choice.h"

namespace teraio::planner {
namespace {

struct QueueEntry {
  double score = 0;
  int32_t period = 0;
  int32_t version = 0;

  // Orders a priority queue: the highest score first, then the lowest period.
  bool operator<(const QueueEntry& other) const {
    return score != other.score ? score < other.score : period > other.period;
  }
};

// Lazy greedy selection (Minoux, 1978): a score that was computed earlier is an upper bound,
// because pressure and bandwidth only decrease. The one exception is a copy that is made or grows,
// which makes the other periods of its epoch cheaper; their candidates are computed again.
class Greedy {
 public:
  Greedy(PlanBuilder& builder, bool timed, double tolerance)
      : builder_(builder), timed_(timed), enough_(1 - tolerance) {
    const size_t count = builder.problem().lifetimes.periods.size();
    versions_.resize(count);
    for (size_t i = 0; i < count; ++i) push(static_cast<int32_t>(i));
  }

  void run(const std::function<void(const Candidate&)>& observe) {
    while (builder_.excess().max() > 0 && !queue_.empty()) {
      const QueueEntry top = queue_.top();
      queue_.pop();
      if (builder_.moved(top.period) || versions_[top.period] != top.version) continue;
      const std::optional<Candidate> candidate = make_candidate(top.period);
      if (!candidate || candidate->benefit <= 0) continue;
      if (!queue_.empty() && candidate->score() < enough_ * queue_.top().score) {
        queue_.push({candidate->score(), top.period, top.version});
        continue;
      }
      const PlanBuilder::Copy before = builder_.copy(top.period);
      builder_.move(*candidate);
      if (observe) observe(*candidate);
      if (builder_.copy(top.period) != before) push_rest_of_epoch(top.period);
    }
  }

 private:
  std::optional<Candidate> make_candidate(int32_t period) const {
    return timed_ ? builder_.timed_candidate(period) : builder_.untimed_candidate(period);
  }

  // Pushes the period with an upper bound of its score that is quick to compute.
  void push(int32_t period) {
    if (builder_.moved(period)) return;
    const std::optional<Candidate> candidate = builder_.untimed_candidate(period);
    if (!candidate) return;
    queue_.push({candidate->score(), period, ++versions_[period]});
  }

  void push_rest_of_epoch(int32_t period) {
    const trace::Lifetimes& lifetimes = builder_.problem().lifetimes;
    for (int32_t other : lifetimes.epochs[lifetimes.periods[period].epoch].periods) push(other);
  }

  PlanBuilder& builder_;
  bool timed_;
  double enough_;
  std::priority_queue<QueueEntry> queue_;
  std::vector<int32_t> versions_;
};

std::vector<int32_t> moved_periods(const PlanBuilder& builder) {
  std::vector<int32_t> periods;
  for (size_t i = 0; i < builder.problem().lifetimes.periods.size(); ++i)
    if (builder.moved(static_cast<int32_t>(i))) periods.push_back(static_cast<int32_t>(i));
  return periods;
}

std::vector<int32_t> reads_by_deadline(const PlanBuilder& builder) {
  const Problem& problem = builder.problem();
  std::vector<int32_t> periods = moved_periods(builder);
  std::erase_if(periods, [&](int32_t p) { return problem.lifetimes.periods[p].until_freed; });
  const auto deadline = [&](int32_t period) {
    return std::pair(problem.lifetimes.periods[period].end % problem.op_count(), period);
  };
  std::sort(periods.begin(), periods.end(),
            [&](int32_t a, int32_t b) { return deadline(a) < deadline(b); });
  return periods;
}

// Starts the read as early as memory allows, but not before `op` or the end of the write.
void start_read_from(PlanBuilder& builder, int32_t period, int64_t op) {
  const PlanBuilder::Move& move = builder.at(period);
  const int64_t earliest = std::max(move.free_from, op);
  if (earliest >= move.needed_from) return;
  const int64_t blocked = builder.excess().last_above(earliest, move.needed_from,
                                                      -builder.problem().size_bytes(period));
  builder.set_needed_from(period, blocked + 1);
}

// Restores the planned starts of reads, as far as memory allows, after more was moved than the
// bandwidth allows.
void restore_timing(PlanBuilder& builder) {
  for (int32_t period : reads_by_deadline(builder))
    start_read_from(builder, period, builder.at(period).planned_from);
}

Status does_not_fit(const PlanBuilder& builder) {
  const Problem& problem = builder.problem();
  const int64_t last = problem.op_count();
  const int64_t op = builder.excess().last_above(0, last, 0);
  const int64_t over = builder.excess().max(op, op + 1);
  return Status(
      ErrorCode::kOutOfSpace,
      fmt::format(
          "op {} ({}) needs {} bytes more than the device budget of {}: the "
          "tiers{} have no room for what would have to leave. Raise the device budget, the host "
          "limit or the capacity of the drives",
          op, problem.trace.ops[op].name, over, problem.budget_bytes(),
          problem.limits.write_budget_bytes ? " and the write budget" : ""));
}

// Returns the periods that would relieve pressure but could not be moved, and whose epoch has its
// copy on the host tier; the largest relief first.
std::vector<int32_t> stuck_periods(const PlanBuilder& builder) {
  const trace::Lifetimes& lifetimes = builder.problem().lifetimes;
  std::vector<std::pair<double, int32_t>> stuck;
  for (size_t i = 0; i < lifetimes.periods.size(); ++i) {
    const int32_t index = static_cast<int32_t>(i);
    if (builder.moved(index) || builder.tier_of_copy(index) != plan::Tier::kHost) continue;
    const trace::InactivePeriod& period = lifetimes.periods[i];
    const double relief =
        builder.excess().relief(period.first, period.end, builder.problem().size_bytes(index));
    if (relief > 0) stuck.push_back({-relief, index});
  }
  std::sort(stuck.begin(), stuck.end());
  std::vector<int32_t> periods;
  for (const auto& [relief, index] : stuck) periods.push_back(index);
  return periods;
}

// A full host tier can keep an op from fitting although the drives have room, because an epoch has
// only one copy. Moves the copies of some such epochs to the drives; returns false when that moves
// none.
bool relocate_some(PlanBuilder& builder) {
  const std::vector<int32_t> stuck = stuck_periods(builder);
  const size_t count = stuck.size() / 4 + 1;
  bool any = false;
  for (size_t i = 0; i < std::min(count, stuck.size()) && builder.excess().max() > 0; ++i) {
    if (builder.moved(stuck[i]) || builder.tier_of_copy(stuck[i]) != plan::Tier::kHost) continue;
    any |= builder.relocate(stuck[i], plan::Tier::kSsd);
  }
  return any;
}

}  // namespace

void select_in_time(PlanBuilder& builder, double tolerance, double headroom_share,
                    const std::function<void(const Candidate&)>& observe) {
  const auto budget_bytes = static_cast<double>(builder.problem().budget_bytes());
  const auto headroom_bytes = static_cast<int64_t>(headroom_share * budget_bytes);
  builder.keep_free(headroom_bytes);
  Greedy(builder, true, tolerance).run(observe);
  builder.keep_free(-headroom_bytes);
}

Status select_to_fit(PlanBuilder& builder, double tolerance) {
  if (builder.excess().max() <= 0) return Status();
  builder.forget_timing();
  do Greedy(builder, false, tolerance).run({});
  while (builder.excess().max() > 0 && relocate_some(builder));
  if (builder.excess().max() > 0) return does_not_fit(builder);
  restore_timing(builder);
  return Status();
}

void revert_unneeded(PlanBuilder& builder) {
  const Problem& problem = builder.problem();
  std::vector<std::pair<int64_t, int32_t>> by_length;
  for (int32_t period : moved_periods(builder)) {
    const PlanBuilder::Move& move = builder.at(period);
    by_length.push_back({move.needed_from - move.free_from, period});
  }
  std::sort(by_length.begin(), by_length.end());
  for (const auto& [length, period] : by_length) {
    const PlanBuilder::Move& move = builder.at(period);
    if (builder.excess().max(move.free_from, move.needed_from) <= -problem.size_bytes(period))
      builder.revert(period);
  }
}

void prefetch_early(PlanBuilder& builder) {
  for (int32_t period : reads_by_deadline(builder))
    start_read_from(builder, period, builder.problem().lifetimes.periods[period].first + 1);
}

bool relay_writes(PlanBuilder& builder, const std::vector<double>& op_ns) {
  std::vector<PeriodMove> moves;
  for (size_t i = 0; i < builder.problem().lifetimes.periods.size(); ++i)
    moves.push_back(builder.at(static_cast<int32_t>(i)));
  RelayChoice(builder.problem(), Timeline(op_ns), builder.host_use()).find(moves);
  bool any = false;
  for (int32_t index : std::views::reverse(writers_in_order(builder.problem(), moves)))
    if (moves[index].relay) any |= builder.relay(index, *moves[index].relay);
  return any;
}

void limit_read_ahead(PlanBuilder& builder, const std::vector<double>& op_ns, double horizon_ns) {
  const Problem& problem = builder.problem();
  std::vector<double> start_ns{0};  // of unrolled ops
  for (int64_t op = 0; op < 2 * problem.op_count(); ++op)
    start_ns.push_back(start_ns.back() + op_ns[op % problem.op_count()]);
  for (int32_t period : reads_by_deadline(builder)) {
    const int64_t end = problem.lifetimes.periods[period].end;
    const double read_ns = builder.ledger().alone_ns(builder.at(period).tier, Direction::kRead,
                                                     problem.size_bytes(period));
    const auto first = std::lower_bound(start_ns.begin(), start_ns.begin() + end,
                                        start_ns[end] - read_ns - horizon_ns);
    const int64_t op = first - start_ns.begin();
    if (op > builder.at(period).needed_from) builder.set_needed_from(period, op);
  }
}

plan::Plan plan_of(const PlanBuilder& builder) {
  return plan_of_moves(builder.problem(),
                       [&](int32_t i) -> const PeriodMove& { return builder.at(i); });
}

}  // namespace teraio::planner
