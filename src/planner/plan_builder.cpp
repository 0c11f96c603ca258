#include "planner/plan_builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace teraio::planner {
namespace {

std::vector<int64_t> excess_of(const Problem& problem) {
  std::vector<int64_t> excess = problem.lifetimes.footprint_bytes;
  for (int64_t& bytes : excess) bytes -= problem.budget_bytes();
  return excess;
}

int64_t total_bytes(const trace::TraceIndex& index) {
  return std::accumulate(index.size_bytes.begin(), index.size_bytes.end(), int64_t{0});
}

// The smallest weight is 1, because an op that takes no time must fit too.
std::vector<double> weights_of(const PlanBuilderOptions& options) {
  std::vector<double> weights = options.op_weights.empty() ? options.op_ns : options.op_weights;
  for (double& weight : weights) weight = std::max(weight, 1.0);
  return weights;
}

MemoryCurve empty_tier(const Problem& problem, plan::Tier tier) {
  const size_t count = problem.trace.ops.size();
  return MemoryCurve(std::vector<int64_t>(count, -problem.tier_capacity_bytes(tier)),
                     std::vector<double>(count, 0.0));
}

hardware::Hardware with_share_of_drives(hardware::Hardware hardware, double share) {
  for (hardware::Drive& drive : hardware.drives)
    for (int64_t* rate : {&drive.rates.read_bytes_per_second, &drive.rates.write_bytes_per_second})
      *rate = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(*rate) * share));
  return hardware;
}

}  // namespace

PlanBuilder::PlanBuilder(const Problem& problem, PlanBuilderOptions options)
    : problem_(&problem),
      options_(std::move(options)),
      timeline_(options_.op_ns),
      ledger_(with_share_of_drives(problem.hardware, options_.drive_share), options_.op_ns),
      excess_(excess_of(problem), weights_of(options_)),
      tier_capacity_bytes_{problem.tier_capacity_bytes(plan::Tier::kSsd),
                           problem.tier_capacity_bytes(plan::Tier::kHost)},
      tier_is_roomy_{tier_capacity_bytes_[0] >= total_bytes(problem.index),
                     tier_capacity_bytes_[1] >= total_bytes(problem.index)},
      tier_use_{empty_tier(problem, plan::Tier::kSsd), empty_tier(problem, plan::Tier::kHost)},
      moves_(problem.lifetimes.periods.size()),
      copies_(problem.lifetimes.epochs.size()) {
  for (size_t i = 0; i < options_.reserved_epochs.size(); ++i)
    if (options_.reserved_epochs[i])
      reserved_bytes_ += problem.size_bytes(problem.lifetimes.epochs[i].periods.front());
  if (!options_.reserved_host_periods.empty()) reserve_host();
  for (int32_t i : options_.discarded_periods)
    excess_.add(period(i).first, period(i).end, -problem.size_bytes(i));
}

// Reserves the room of each epoch from its first to its last reserved period.
void PlanBuilder::reserve_host() {
  const std::vector<trace::CopyEpoch>& epochs = problem_->lifetimes.epochs;
  reserved_host_epochs_.resize(epochs.size());
  for (size_t i = 0; i < epochs.size(); ++i) {
    int64_t first = -1;
    int64_t end = 0;
    for (int32_t index : epochs[i].periods) {
      if (!options_.reserved_host_periods[index]) continue;
      if (first < 0) first = problem_->position(index);
      end = problem_->end_of_rest(index);
    }
    if (first < 0) continue;
    if (epochs[i].never_written) first = 0, end = problem_->op_count();
    reserved_host_epochs_[i] = true;
    tier_use(plan::Tier::kHost).add(first, end, problem_->size_bytes(epochs[i].periods.front()));
  }
}

bool PlanBuilder::has_reserved_host(int32_t index) const {
  return !reserved_host_epochs_.empty() && reserved_host_epochs_[period(index).epoch];
}

bool PlanBuilder::may_use_reserved_host(int32_t index, plan::Tier tier) const {
  return tier == plan::Tier::kHost && options_.reserved_host_periods[index];
}

bool PlanBuilder::is_first(int32_t index) const {
  return !copy(index).exists() || problem_->position(index) < problem_->position(copy(index).first);
}

bool PlanBuilder::would_write(int32_t index) const {
  if (!options_.clean_copies) return true;
  return !epoch(index).never_written && !copy(index).exists();
}

// Visits the ranges of ops during which the move would newly occupy the tier.
template <typename Visit>
void PlanBuilder::for_new_occupancy(int32_t index, Visit visit) const {
  const int64_t first = problem_->position(index);
  const int64_t end = problem_->end_of_rest(index);
  const Copy& now = copy(index);
  if (!options_.clean_copies) {
    visit(first, end);
  } else if (!now.exists()) {
    if (epoch(index).never_written)
      visit(0, problem_->op_count());
    else
      visit(first, end);
  } else if (!epoch(index).never_written) {
    visit(first, problem_->position(now.first));
    visit(problem_->end_of_rest(now.last), end);
  }
}

bool PlanBuilder::tier_has_room(int32_t index, plan::Tier tier) const {
  if (tier_is_roomy_[static_cast<size_t>(tier)]) return true;
  const int64_t bytes = problem_->size_bytes(index);
  bool room = true;
  for_new_occupancy(index, [&](int64_t first, int64_t end) {
    room = room && tier_use(tier).max(first, end) <= -bytes;
  });
  return room;
}

bool PlanBuilder::is_reserved(int32_t index) const {
  return !options_.reserved_epochs.empty() && options_.reserved_epochs[period(index).epoch];
}

bool PlanBuilder::within_write_budget(int32_t index) const {
  const std::optional<int64_t>& budget = problem_->limits.write_budget_bytes;
  if (!budget || !would_write(index)) return true;
  const int64_t more_bytes = is_reserved(index) ? 0 : problem_->size_bytes(index);
  return ssd_bytes_written_ + reserved_bytes_ + more_bytes <= *budget;
}

// `sign`: 1 when the period begins to write the copy of its epoch, -1 when it no longer does.
void PlanBuilder::count_write(int32_t index, plan::Tier tier, int64_t sign) {
  const int64_t bytes = sign * problem_->size_bytes(index);
  if (tier == plan::Tier::kSsd) ssd_bytes_written_ += bytes;
  if (is_reserved(index)) reserved_bytes_ -= bytes;
}

double PlanBuilder::share_of_write(int32_t index) const {
  const int64_t bytes = problem_->size_bytes(index);
  const auto relief = [&](int32_t other) {
    return excess_.relief(period(other).first, period(other).end, bytes);
  };
  double sum = 0;
  for (int32_t other : epoch(index).periods) sum += relief(other);
  return sum > 0 ? relief(index) / sum : 1;
}

bool PlanBuilder::may_use(int32_t index, plan::Tier tier) const {
  if (tier_capacity_bytes_[static_cast<size_t>(tier)] <= 0) return false;
  if (!options_.fixed_periods.empty() && options_.fixed_periods[index]) return false;
  const Copy& now = copy(index);
  if (options_.clean_copies && now.exists() && moves_[now.first].tier != tier) return false;
  if (has_reserved_host(index)) return may_use_reserved_host(index, tier);
  if (tier == plan::Tier::kSsd && !within_write_budget(index)) return false;
  return tier_has_room(index, tier);
}

// Returns the last op at or after `first` in which the read of the period must start; the end of
// the period when it has no read.
std::optional<int64_t> PlanBuilder::read_start(int32_t index, plan::Tier tier,
                                               int64_t first) const {
  const trace::InactivePeriod& own = period(index);
  if (own.until_freed) return own.end;
  return ledger_.read_start(tier, first, own.end, problem_->size_bytes(index));
}

// At the price of the op before the deadline of the read.
double PlanBuilder::read_cost(int32_t index, plan::Tier tier) const {
  if (period(index).until_freed) return 0;
  const double ns = ledger_.alone_ns(tier, Direction::kRead, problem_->size_bytes(index));
  if (options_.read_price.empty()) return ns;
  return ns * options_.read_price[(period(index).end - 1) % problem_->op_count()];
}

// At the price of the op where the write can start.
double PlanBuilder::write_cost(int32_t index, plan::Tier tier) const {
  double ns = ledger_.alone_ns(tier, Direction::kWrite, problem_->size_bytes(index));
  if (tier == plan::Tier::kSsd && options_.ssd_write_price > 1)
    ns *= options_.ssd_write_price * share_of_write(index);
  if (options_.write_price.empty()) return ns;
  return ns * options_.write_price[period(index).first % problem_->op_count()];
}

// Of the room on the host tier that the move would newly take.
double PlanBuilder::room_cost(int32_t index) const {
  if (options_.host_price == 0 || tier_is_roomy_[static_cast<size_t>(plan::Tier::kHost)]) return 0;
  double rest_ns = 0;
  for_new_occupancy(index, [&](int64_t first, int64_t end) {
    if (first < end) rest_ns += timeline_.start_ns(end) - timeline_.start_ns(first);
  });
  const int64_t bytes = problem_->size_bytes(index);
  return options_.host_price * rest_ns / timeline_.step_ns() *
         (ledger_.alone_ns(plan::Tier::kSsd, Direction::kRead, bytes) +
          ledger_.alone_ns(plan::Tier::kSsd, Direction::kWrite, bytes));
}

std::optional<Candidate> PlanBuilder::untimed_candidate_on(int32_t index, plan::Tier tier) const {
  if (!may_use(index, tier)) return std::nullopt;
  Candidate candidate{index,
                      tier,
                      would_write(index),
                      period(index).first,
                      period(index).end,
                      0,
                      read_cost(index, tier)};
  if (candidate.writes) candidate.cost += write_cost(index, tier);
  if (tier == plan::Tier::kHost) candidate.cost += room_cost(index);
  return candidate;
}

std::optional<Candidate> PlanBuilder::timed_candidate_on(int32_t index, plan::Tier tier) const {
  const int64_t bytes = problem_->size_bytes(index);
  if (ledger_.latency_share(tier, bytes) > options_.latency_share_max) return std::nullopt;
  std::optional<Candidate> candidate = untimed_candidate_on(index, tier);
  if (!candidate) return std::nullopt;
  const trace::InactivePeriod& own = period(index);
  const bool first_write = candidate->writes || (is_first(index) && !epoch(index).never_written);
  if (first_write) {
    const std::optional<int64_t> free = ledger_.write_end(tier, own.first, own.end, bytes);
    if (!free) return std::nullopt;
    candidate->free_from = *free;
  }
  const std::optional<int64_t> needed = read_start(index, tier, candidate->free_from);
  if (!needed) return std::nullopt;
  candidate->needed_from = *needed;
  candidate->benefit = excess_.relief(candidate->free_from, candidate->needed_from, bytes);
  // The period that was the writer becomes a drop, which frees its bytes at once.
  if (first_write && !candidate->writes) {
    const Move& writer = moves_[copy(index).first];
    candidate->benefit += excess_.relief(period(copy(index).first).first, writer.free_from, bytes);
  }
  return candidate;
}

// A candidate whose copy is written in an earlier idle period of the epoch. It costs one more read,
// but memory is released without a wait for the write when it is short.
std::optional<Candidate> PlanBuilder::early_write_candidate(int32_t index, plan::Tier tier) const {
  const std::vector<int32_t>& periods = epoch(index).periods;
  const trace::InactivePeriod& own = period(index);
  const int64_t bytes = problem_->size_bytes(index);
  for (size_t i = 0; i < periods.size() && periods[i] != index; ++i) {
    const std::optional<Candidate> early = timed_candidate_on(periods[i], tier);
    if (!early) continue;
    if (tier_use(tier).max(problem_->position(periods[i]), problem_->end_of_rest(index)) > -bytes)
      continue;
    const std::optional<int64_t> needed = read_start(index, tier, own.first);
    if (!needed) return std::nullopt;
    Candidate candidate{index, tier, false, own.first, *needed, 0, 0};
    candidate.cost = early->cost + read_cost(index, tier);
    candidate.benefit = early->benefit + excess_.relief(own.first, *needed, bytes);
    candidate.early_writer = periods[i];
    candidate.early_free_from = early->free_from;
    candidate.early_needed_from = early->needed_from;
    return candidate;
  }
  return std::nullopt;
}

std::optional<Candidate> PlanBuilder::timed_candidate(int32_t index) const {
  std::optional<Candidate> best;
  const auto worth = [this](const Candidate& candidate) {
    return options_.host_price > 0 ? candidate.score() : candidate.benefit;
  };
  const auto consider = [&](const std::optional<Candidate>& candidate) {
    if (candidate && (!best || worth(*candidate) > worth(*best))) best = candidate;
  };
  consider(timed_candidate_on(index, plan::Tier::kSsd));
  consider(timed_candidate_on(index, plan::Tier::kHost));
  if (!options_.early_writes || !would_write(index)) return best;
  for (plan::Tier tier : {plan::Tier::kSsd, plan::Tier::kHost}) {
    const std::optional<Candidate> early = early_write_candidate(index, tier);
    if (early && (!best || early->score() > best->score())) best = early;
  }
  return best;
}

std::optional<Candidate> PlanBuilder::untimed_candidate(int32_t index) const {
  const double benefit =
      excess_.relief(period(index).first, period(index).end, problem_->size_bytes(index));
  if (benefit <= 0) return std::nullopt;
  std::optional<Candidate> best;
  for (plan::Tier tier : {plan::Tier::kSsd, plan::Tier::kHost}) {
    std::optional<Candidate> candidate = untimed_candidate_on(index, tier);
    if (!candidate) continue;
    candidate->benefit = benefit;
    if (!best || candidate->score() > best->score()) best = candidate;
  }
  return best;
}

// Gives the write of the copy to an earlier period; the period that had it becomes a drop.
void PlanBuilder::hand_over_write(int32_t index) {
  Move& before = moves_[copy(index).first];
  ledger_.release(before.write);
  before.write.parts.clear();
  before.writes = false;
  const trace::InactivePeriod& old = period(copy(index).first);
  excess_.add(old.first, before.free_from, -problem_->size_bytes(index));
  before.free_from = old.first;
  moves_[index].writes = !epoch(index).never_written;
}

void PlanBuilder::occupy(int32_t index, plan::Tier tier, int64_t sign) {
  if (has_reserved_host(index)) return;
  const int64_t bytes = problem_->size_bytes(index);
  for_new_occupancy(index, [&](int64_t first, int64_t end) {
    tier_use(tier).add(first, std::max(first, end), sign * bytes);
  });
}

void PlanBuilder::move(const Candidate& candidate) {
  if (candidate.early_writer >= 0) {
    move_alone({candidate.early_writer, candidate.tier, true, candidate.early_free_from,
                candidate.early_needed_from, 0, 0});
  }
  move_alone(candidate);
}

void PlanBuilder::move_alone(const Candidate& candidate) {
  const trace::InactivePeriod& own = period(candidate.period);
  const int64_t bytes = problem_->size_bytes(candidate.period);
  Move& move = moves_[candidate.period];
  occupy(candidate.period, candidate.tier, 1);
  const int64_t planned_from =
      std::min(candidate.needed_from,
               read_start(candidate.period, candidate.tier, candidate.free_from).value_or(own.end));
  move = {{true, candidate.writes, candidate.tier, candidate.free_from, candidate.needed_from},
          planned_from,
          {},
          {}};
  if (options_.clean_copies && copy(candidate.period).exists() && is_first(candidate.period))
    hand_over_write(candidate.period);
  if (move.writes)
    move.write = ledger_.book(candidate.tier, Direction::kWrite, own.first, own.end, bytes);
  if (!own.until_freed)
    move.read = ledger_.book(candidate.tier, Direction::kRead, candidate.free_from, own.end, bytes);
  if (candidate.writes) count_write(candidate.period, candidate.tier, 1);
  excess_.add(candidate.free_from, candidate.needed_from, -bytes);
  update_copy(candidate.period);
}

bool PlanBuilder::move_instead(const std::vector<int32_t>& discarded) {
  const bool move = std::ranges::all_of(discarded, [this](int32_t i) { return move_discarded(i); });
  if (!move)
    for (int32_t i : discarded) discard_again(i);
  return move;
}

bool PlanBuilder::move_discarded(int32_t index) {
  const trace::InactivePeriod& own = period(index);
  options_.fixed_periods[index] = false;
  excess_.add(own.first, own.end, problem_->size_bytes(index));
  if (excess_.max(own.first, own.end) <= 0) return true;
  const std::optional<Candidate> candidate = timed_candidate(index);
  if (!candidate) return false;
  move(*candidate);
  return excess_.max(own.first, moves_[index].free_from) <= 0 &&
         excess_.max(moves_[index].needed_from, own.end) <= 0;
}

void PlanBuilder::discard_again(int32_t index) {
  if (options_.fixed_periods[index]) return;
  if (moved(index)) revert(index);
  excess_.add(period(index).first, period(index).end, -problem_->size_bytes(index));
  options_.fixed_periods[index] = true;
}

bool PlanBuilder::revert(int32_t index) {
  Move& move = moves_[index];
  const Copy now = copy(index);
  if (options_.clean_copies && now.first == index && now.last != index &&
      !epoch(index).never_written)
    return false;
  const int64_t bytes = problem_->size_bytes(index);
  ledger_.release(move.read);
  if (move.writes) ledger_.release(move.write);
  if (move.writes) count_write(index, move.tier, -1);
  excess_.add(move.free_from, move.needed_from, bytes);
  const plan::Tier tier = move.tier;
  move = Move();
  update_copy(index);
  occupy(index, tier, -1);
  return true;
}

void PlanBuilder::update_copy(int32_t index) {
  Copy& now = copies_[period(index).epoch];
  now = Copy();
  for (int32_t other : epoch(index).periods) {
    if (!moves_[other].moved) continue;
    if (now.first < 0) now.first = other;
    now.last = other;
  }
}

void PlanBuilder::forget_timing() {
  for (size_t i = 0; i < moves_.size(); ++i) {
    Move& move = moves_[i];
    if (!move.moved) continue;
    const trace::InactivePeriod& own = period(static_cast<int32_t>(i));
    const int64_t bytes = problem_->size_bytes(static_cast<int32_t>(i));
    excess_.add(own.first, move.free_from, -bytes);
    excess_.add(move.needed_from, own.end, -bytes);
    move.free_from = own.first;
    move.needed_from = own.end;
  }
}

bool PlanBuilder::relocate(int32_t period, plan::Tier tier) {
  const plan::Tier before = moves_[copy(period).first].tier;
  std::vector<int32_t> old;
  for (int32_t other : epoch(period).periods)
    if (moves_[other].moved) old.push_back(other);
  std::vector<int32_t> all = old;
  if (!moves_[period].moved) all.push_back(period);
  std::sort(all.begin(), all.end(),
            [this](int32_t a, int32_t b) { return problem_->position(a) < problem_->position(b); });
  const auto move_all = [&](const std::vector<int32_t>& periods, plan::Tier target) {
    for (int32_t other : periods) {
      const std::optional<Candidate> candidate = untimed_candidate_on(other, target);
      if (!candidate) return false;
      move(*candidate);
    }
    return true;
  };
  const auto revert_all = [&](const std::vector<int32_t>& periods) {
    for (size_t i = periods.size(); i-- > 0;)
      if (moves_[periods[i]].moved) revert(periods[i]);
  };
  revert_all(old);
  if (move_all(all, tier)) return true;
  revert_all(all);
  TERAIO_CHECK(move_all(old, before));
  return false;
}

void PlanBuilder::set_needed_from(int32_t index, int64_t op) {
  Move& move = moves_[index];
  const int64_t bytes = problem_->size_bytes(index);
  excess_.add(op, move.needed_from, bytes);
  excess_.add(move.needed_from, op, -bytes);
  move.needed_from = op;
}

bool PlanBuilder::relay(int32_t index, const Relay& relay) {
  Move& move = moves_[index];
  const int64_t bytes = problem_->size_bytes(index);
  const std::optional<int64_t> rests =
      ledger_.write_end(plan::Tier::kHost, relay.rests_at, relay.reads_at, bytes);
  if (!rests || excess_.max(move.free_from, *rests) > -bytes ||
      excess_.max(std::max(relay.reads_at, move.free_from), relay.free_from) > -bytes)
    return false;
  excess_.add(move.free_from, move.needed_from, bytes);
  excess_.add(*rests, relay.reads_at, -bytes);
  excess_.add(relay.free_from, move.needed_from, -bytes);
  move.relay = relay;
  move.free_from = relay.free_from;
  return true;
}

}  // namespace teraio::planner
