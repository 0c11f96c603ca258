#include "planner/write_cover.h"

#include <algorithm>

#include "base/check.h"
#include "planner/selection.h"

namespace teraio::planner {
namespace {

// Next to this, what a transfer takes does not count.
constexpr double kOnlyWritesCount = 1e6;

DraftOptions cover_options(const Problem& problem) {
  DraftOptions options;
  options.early_writes = false;
  options.ssd_write_price = kOnlyWritesCount;
  options.op_ns.assign(problem.trace.ops.size(), 1e9);
  return options;
}

std::vector<int32_t> moved_periods_of(const Draft& draft, int32_t epoch) {
  std::vector<int32_t> periods;
  for (int32_t period : draft.problem().lifetimes.epochs[epoch].periods)
    if (draft.moved(period)) periods.push_back(period);
  return periods;
}

std::vector<int32_t> epochs_written_to_ssd(const Draft& draft) {
  std::vector<int32_t> epochs;
  for (size_t i = 0; i < draft.problem().lifetimes.epochs.size(); ++i) {
    const trace::CopyEpoch& epoch = draft.problem().lifetimes.epochs[i];
    if (!epoch.never_written && draft.tier_of_copy(epoch.periods.front()) == plan::Tier::kSsd)
      epochs.push_back(static_cast<int32_t>(i));
  }
  return epochs;
}

int64_t size_of_epoch(const Problem& problem, int32_t epoch) {
  return problem.size_bytes(problem.lifetimes.epochs[epoch].periods.front());
}

bool is_needed(const Draft& draft, int32_t period) {
  const Draft::Move& move = draft.at(period);
  return draft.excess().max(move.free_from, move.needed_from) > -draft.problem().size_bytes(period);
}

// Later choices can cover what earlier ones did: large copies that nothing needs go first.
void thin_out(Draft& draft) {
  const Problem& problem = draft.problem();
  std::vector<int32_t> epochs = epochs_written_to_ssd(draft);
  std::stable_sort(epochs.begin(), epochs.end(), [&](int32_t a, int32_t b) {
    return size_of_epoch(problem, a) > size_of_epoch(problem, b);
  });
  for (int32_t epoch : epochs) {
    const std::vector<int32_t> periods = moved_periods_of(draft, epoch);
    const auto needed = [&](int32_t period) { return is_needed(draft, period); };
    if (std::any_of(periods.begin(), periods.end(), needed)) continue;
    for (size_t i = periods.size(); i-- > 0;) draft.stay(periods[i]);
  }
}

int64_t ops_away(const Draft& draft, int32_t epoch) {
  int64_t ops = 0;
  for (int32_t period : moved_periods_of(draft, epoch)) {
    const trace::InactivePeriod& own = draft.problem().lifetimes.periods[period];
    ops += own.end - own.first;
  }
  return ops;
}

// The room that a short rest takes on the host serves several copies in one iteration.
void give_to_host(Draft& draft) {
  std::vector<std::pair<int64_t, int32_t>> by_time;
  for (int32_t epoch : epochs_written_to_ssd(draft))
    by_time.push_back({ops_away(draft, epoch), epoch});
  std::sort(by_time.begin(), by_time.end());
  for (const auto& [ops, epoch] : by_time)
    draft.relocate(moved_periods_of(draft, epoch).front(), plan::Tier::kHost);
}

WriteCover cover_of(const Draft& draft) {
  const Problem& problem = draft.problem();
  WriteCover cover;
  cover.writes_epoch.resize(problem.lifetimes.epochs.size());
  cover.host_periods.resize(problem.lifetimes.periods.size());
  for (size_t i = 0; i < problem.lifetimes.periods.size(); ++i) {
    const auto period = static_cast<int32_t>(i);
    if (!draft.moved(period)) continue;
    cover.moves.push_back({period, draft.at(period).tier});
    cover.host_periods[i] = draft.at(period).tier == plan::Tier::kHost;
  }
  for (int32_t epoch : epochs_written_to_ssd(draft)) {
    cover.writes_epoch[epoch] = true;
    cover.ssd_bytes_written += size_of_epoch(problem, epoch);
  }
  return cover;
}

Result<WriteCover> cover_on_all_tiers(const Problem& problem) {
  Draft draft(problem, cover_options(problem));
  TERAIO_RETURN_IF_ERROR(select_to_fit(draft, 0));
  draft.forget_timing();
  thin_out(draft);
  return cover_of(draft);
}

Result<WriteCover> cover_on_drives_first(const Problem& problem) {
  plan::Limits drives_only = problem.limits;
  drives_only.host_limit_bytes = 0;
  const Result<WriteCover> on_drives =
      cover_on_all_tiers({problem.trace, problem.hardware, drives_only, problem.lifetimes});
  if (!on_drives.ok()) return on_drives.status();
  Draft draft(problem, cover_options(problem));
  move_cover(draft, *on_drives);
  give_to_host(draft);
  return cover_of(draft);
}

}  // namespace

Result<WriteCover> least_write_cover(const Problem& problem) {
  plan::Limits unlimited = problem.limits;
  unlimited.write_budget_bytes.reset();
  const Problem free{problem.trace, problem.hardware, unlimited, problem.lifetimes};
  Result<WriteCover> at_once = cover_on_all_tiers(free);
  if (free.tier_capacity_bytes(plan::Tier::kHost) <= 0) return at_once;
  Result<WriteCover> drives_first = cover_on_drives_first(free);
  if (!drives_first.ok()) return at_once;
  if (at_once.ok() && at_once->ssd_bytes_written <= drives_first->ssd_bytes_written) return at_once;
  return drives_first;
}

void move_cover(Draft& draft, const WriteCover& cover) {
  for (const auto& [period, tier] : cover.moves) {
    const std::optional<Offer> offer = draft.untimed_offer_on(period, tier);
    TERAIO_CHECK(offer);
    draft.move(*offer);
  }
}

}  // namespace teraio::planner
