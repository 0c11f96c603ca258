#include "planner/period_move.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace teraio::planner {
namespace {

trace::OpIndex in_iteration(int64_t op, const Problem& problem) {
  return static_cast<trace::OpIndex>(op % problem.op_count());
}

// The offload or drop at the start of a moved period.
plan::Migration leaving(const Problem& problem, const trace::InactivePeriod& period,
                        const PeriodMove& move) {
  return {period.tensor, move.writes ? plan::Action::kOffload : plan::Action::kDrop,
          in_iteration(move.relay ? move.relay->rests_at : period.first, problem),
          in_iteration(period.deadline(), problem), move.leaves_for()};
}

void add_relay(plan::Plan& plan, const Problem& problem, const trace::InactivePeriod& period,
               const Relay& relay) {
  const trace::OpIndex leaves_at = in_iteration(relay.leaves_at, problem);
  plan.migrations.push_back({period.tensor, plan::Action::kPrefetch,
                             in_iteration(relay.reads_at, problem), leaves_at, plan::Tier::kHost});
  plan.migrations.push_back({period.tensor, plan::Action::kOffload, leaves_at,
                             in_iteration(relay.free_from, problem), plan::Tier::kSsd});
}

plan::Migration returning(const Problem& problem, const trace::InactivePeriod& period,
                          const PeriodMove& move) {
  return {period.tensor, plan::Action::kPrefetch, in_iteration(move.needed_from, problem),
          in_iteration(period.end, problem), move.tier};
}

}  // namespace

plan::Plan plan_of_moves(const Problem& problem,
                         const std::function<const PeriodMove&(int32_t)>& move_of) {
  plan::Plan plan;
  plan.trace = problem.trace.name;
  const std::vector<trace::InactivePeriod>& periods = problem.lifetimes.periods;
  for (size_t i = 0; i < periods.size(); ++i) {
    const PeriodMove& move = move_of(static_cast<int32_t>(i));
    if (!move.moved) continue;
    plan.migrations.push_back(leaving(problem, periods[i], move));
    if (move.relay) add_relay(plan, problem, periods[i], *move.relay);
    if (!periods[i].until_freed) plan.migrations.push_back(returning(problem, periods[i], move));
  }
  const auto key = [](const plan::Migration& migration) {
    return std::tuple(migration.trigger_op, migration.action == plan::Action::kPrefetch,
                      migration.deadline_op, migration.tensor);
  };
  std::ranges::sort(plan.migrations, {}, key);
  return plan;
}

std::vector<int32_t> writers_in_order(const Problem& problem,
                                      const std::vector<PeriodMove>& moves) {
  std::vector<int32_t> writers;
  for (size_t i = 0; i < moves.size(); ++i)
    if (moves[i].moved && moves[i].writes) writers.push_back(static_cast<int32_t>(i));
  std::ranges::sort(writers, {}, [&](int32_t period) {
    return std::pair(problem.lifetimes.periods[period].first, period);
  });
  return writers;
}

}  // namespace teraio::planner
