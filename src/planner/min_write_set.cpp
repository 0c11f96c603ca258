#include "planner/min_write_set.h"

#include <algorithm>

#include "base/check.h"
#include "planner/selection.h"

namespace teraio::planner {
namespace {

// A price of writes so high that transfer times do not influence the choice.
constexpr double kOnlyWritesCount = 1e6;

PlanBuilderOptions write_set_options(const Problem& problem) {
  PlanBuilderOptions options;
  options.early_writes = false;
  options.ssd_write_price = kOnlyWritesCount;
  options.op_ns.assign(problem.trace.ops.size(), 1e9);
  return options;
}

std::vector<int32_t> moved_periods_of(const PlanBuilder& builder, int32_t epoch) {
  std::vector<int32_t> periods;
  for (int32_t period : builder.problem().lifetimes.epochs[epoch].periods)
    if (builder.moved(period)) periods.push_back(period);
  return periods;
}

std::vector<int32_t> epochs_written_to_ssd(const PlanBuilder& builder) {
  std::vector<int32_t> epochs;
  for (size_t i = 0; i < builder.problem().lifetimes.epochs.size(); ++i) {
    const trace::CopyEpoch& epoch = builder.problem().lifetimes.epochs[i];
    if (!epoch.never_written && builder.tier_of_copy(epoch.periods.front()) == plan::Tier::kSsd)
      epochs.push_back(static_cast<int32_t>(i));
  }
  return epochs;
}

int64_t size_of_epoch(const Problem& problem, int32_t epoch) {
  return problem.size_bytes(problem.lifetimes.epochs[epoch].periods.front());
}

bool is_needed(const PlanBuilder& builder, int32_t period) {
  const PlanBuilder::Move& move = builder.at(period);
  return builder.excess().max(move.free_from, move.needed_from) >
         -builder.problem().size_bytes(period);
}

// Removes copies that no op needs, the largest first: a later choice can make an earlier one
// unnecessary.
void remove_unneeded(PlanBuilder& builder) {
  const Problem& problem = builder.problem();
  std::vector<int32_t> epochs = epochs_written_to_ssd(builder);
  std::stable_sort(epochs.begin(), epochs.end(), [&](int32_t a, int32_t b) {
    return size_of_epoch(problem, a) > size_of_epoch(problem, b);
  });
  for (int32_t epoch : epochs) {
    const std::vector<int32_t> periods = moved_periods_of(builder, epoch);
    const auto needed = [&](int32_t period) { return is_needed(builder, period); };
    if (std::any_of(periods.begin(), periods.end(), needed)) continue;
    for (size_t i = periods.size(); i-- > 0;) builder.revert(periods[i]);
  }
}

int64_t offloaded_ops(const PlanBuilder& builder, int32_t epoch) {
  int64_t ops = 0;
  for (int32_t period : moved_periods_of(builder, epoch)) {
    const trace::InactivePeriod& own = builder.problem().lifetimes.periods[period];
    ops += own.end - own.first;
  }
  return ops;
}

// Moves copies to the host tier, those that rest for the shortest time first, because the same room
// then serves several copies per iteration.
void give_to_host(PlanBuilder& builder) {
  std::vector<std::pair<int64_t, int32_t>> by_time;
  for (int32_t epoch : epochs_written_to_ssd(builder))
    by_time.push_back({offloaded_ops(builder, epoch), epoch});
  std::sort(by_time.begin(), by_time.end());
  for (const auto& [ops, epoch] : by_time)
    builder.relocate(moved_periods_of(builder, epoch).front(), plan::Tier::kHost);
}

MinWriteSet write_set_of(const PlanBuilder& builder) {
  const Problem& problem = builder.problem();
  MinWriteSet write_set;
  write_set.writes_epoch.resize(problem.lifetimes.epochs.size());
  write_set.host_periods.resize(problem.lifetimes.periods.size());
  for (size_t i = 0; i < problem.lifetimes.periods.size(); ++i) {
    const auto period = static_cast<int32_t>(i);
    if (!builder.moved(period)) continue;
    write_set.moves.push_back({period, builder.at(period).tier});
    write_set.host_periods[i] = builder.at(period).tier == plan::Tier::kHost;
  }
  for (int32_t epoch : epochs_written_to_ssd(builder)) {
    write_set.writes_epoch[epoch] = true;
    write_set.ssd_bytes_written += size_of_epoch(problem, epoch);
  }
  return write_set;
}

Result<MinWriteSet> write_set_on_all_tiers(const Problem& problem) {
  PlanBuilder builder(problem, write_set_options(problem));
  TERAIO_RETURN_IF_ERROR(select_to_fit(builder, 0));
  builder.forget_timing();
  remove_unneeded(builder);
  return write_set_of(builder);
}

Result<MinWriteSet> write_set_on_drives_first(const Problem& problem) {
  plan::Limits drives_only = problem.limits;
  drives_only.host_limit_bytes = 0;
  const Result<MinWriteSet> on_drives = write_set_on_all_tiers(problem.under(drives_only));
  if (!on_drives.ok()) return on_drives.status();
  PlanBuilder builder(problem, write_set_options(problem));
  apply_write_set(builder, *on_drives);
  give_to_host(builder);
  return write_set_of(builder);
}

}  // namespace

Result<MinWriteSet> find_min_write_set(const Problem& problem) {
  plan::Limits unlimited = problem.limits;
  unlimited.write_budget_bytes.reset();
  const Problem free = problem.under(unlimited);
  Result<MinWriteSet> at_once = write_set_on_all_tiers(free);
  if (free.tier_capacity_bytes(plan::Tier::kHost) <= 0) return at_once;
  Result<MinWriteSet> drives_first = write_set_on_drives_first(free);
  if (!drives_first.ok()) return at_once;
  if (at_once.ok() && at_once->ssd_bytes_written <= drives_first->ssd_bytes_written) return at_once;
  return drives_first;
}

void apply_write_set(PlanBuilder& builder, const MinWriteSet& write_set) {
  for (const auto& [period, tier] : write_set.moves) {
    const std::optional<Candidate> candidate = builder.untimed_candidate_on(period, tier);
    TERAIO_CHECK(candidate);
    builder.move(*candidate);
  }
}

}  // namespace teraio::planner
