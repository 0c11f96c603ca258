#include "planner/next_use.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <ranges>
#include <utility>

#include "planner/relay_choice.h"
#include "planner/tier_choice.h"

namespace teraio::planner {

NextUse::NextUse(const Problem& problem, const NextUseOptions& options)
    : problem_(problem),
      options_(options),
      least_excess_bytes_(problem.lifetimes.active_bytes),
      order_(problem.lifetimes.periods.size()),
      moves_(problem.lifetimes.periods.size()),
      latest_reads_(problem.lifetimes.periods.size()) {
  const auto target_bytes = static_cast<int64_t>(static_cast<double>(problem.budget_bytes()) *
                                                 (1 - options.headroom_share));
  // An op that needs the headroom gets it, because every op fits into the budget.
  for (int64_t& bytes : least_excess_bytes_) bytes = std::min<int64_t>(bytes - target_bytes, 0);
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::sort(order_, {}, [&](int32_t period) {
    return std::pair(problem.lifetimes.periods[period].end % problem.op_count(), period);
  });
}

std::optional<plan::Plan> NextUse::next(const Timeline& timeline) {
  MemoryCurve excess(least_excess_bytes_, std::vector<double>(least_excess_bytes_.size(), 1.0));
  if (options_.reads_late) find_latest_reads(timeline);
  leave_all();
  hold_relays(excess);
  wait_for_writes(timeline, excess);
  return_in_order(excess);
  TierChoice tiers(problem_, timeline);
  std::optional<MemoryCurve> host = tiers.choose(moves_);
  if (!host) return std::nullopt;
  if (options_.relays) leave_out_relays(problem_, *host, moves_);
  plan::Plan plan =
      plan_of_moves(problem_, [this](int32_t i) -> const PeriodMove& { return moves_[i]; });
  if (options_.relays) RelayChoice(problem_, timeline, std::move(*host)).find(moves_);
  return plan;
}

void NextUse::leave_all() {
  for (size_t i = 0; i < moves_.size(); ++i) {
    const trace::InactivePeriod& period = problem_.lifetimes.periods[i];
    moves_[i].free_from = period.first;
    moves_[i].needed_from = period.end;
  }
}

double NextUse::transfer_ns(const PeriodMove& move, Direction direction, int64_t size_bytes) const {
  const hardware::Hardware& hardware = problem_.hardware;
  const Rates tier =
      (direction == Direction::kWrite ? move.leaves_for() : move.tier) == plan::Tier::kSsd
          ? hardware::ssd_rates(hardware)
          : hardware.host.rates;
  const int64_t bytes_per_second =
      direction == Direction::kWrite
          ? std::min(tier.write_bytes_per_second, hardware.device_link.write_bytes_per_second)
          : std::min(tier.read_bytes_per_second, hardware.device_link.read_bytes_per_second);
  return static_cast<double>(hardware.request_latency_ns) +
         static_cast<double>(size_bytes) /
             hardware::bytes_per_ns(std::max<int64_t>(bytes_per_second, 1));
}

// Of the plan before: backwards from the last use, each read ends before its own use and before the
// next read begins. The second pass knows what the iteration after it must begin early.
void NextUse::find_latest_reads(const Timeline& timeline) {
  std::vector<int32_t> reads;
  for (size_t i = 0; i < moves_.size(); ++i)
    if (moves_[i].moved && !problem_.lifetimes.periods[i].until_freed)
      reads.push_back(static_cast<int32_t>(i));
  const auto end_in_step = [&](int32_t index) {
    return problem_.lifetimes.periods[index].end % problem_.op_count();
  };
  std::ranges::sort(reads, std::ranges::greater(),
                    [&](int32_t index) { return std::pair(end_in_step(index), index); });
  for (size_t i = 0; i < moves_.size(); ++i) latest_reads_[i] = problem_.lifetimes.periods[i].end;
  double next_ns = 3 * timeline.step_ns();
  for (double offset_ns : {2 * timeline.step_ns(), timeline.step_ns()})
    for (int32_t index : reads) {
      next_ns = std::min(next_ns, timeline.start_ns(end_in_step(index)) + offset_ns) -
                transfer_ns(moves_[index], Direction::kRead, problem_.size_bytes(index));
      const double own_step_ns = is_over_the_end(index) ? timeline.step_ns() : 0;
      const int64_t after = timeline.op_at(std::max(next_ns - offset_ns + own_step_ns, 0.0));
      latest_reads_[index] = std::max<int64_t>(after - 1, 0);
    }
}

// Keeps the tensors that the plan before wrote on the device until their writes end, as far as
// memory allows. A channel writes in the order in which tensors leave; the second pass knows what
// is left over from the iteration before.
void NextUse::wait_for_writes(const Timeline& timeline, MemoryCurve& excess) {
  std::array<double, 2> channel_free_ns{};
  const std::vector<int32_t> writers = writers_in_order(problem_, moves_);
  for (double offset_ns : {0.0, timeline.step_ns()})
    for (int32_t index : writers) {
      PeriodMove& move = moves_[index];
      const trace::InactivePeriod& period = problem_.lifetimes.periods[index];
      const int64_t size_bytes = problem_.size_bytes(index);
      double& free_ns = channel_free_ns[static_cast<size_t>(move.leaves_for())];
      const int64_t leaves_at = move.relay ? move.relay->rests_at : period.first;
      // What is held until it finds room in host memory does not keep others waiting.
      const double begin_ns = move.relay ? 0 : free_ns;
      const double end_ns = std::max(begin_ns, timeline.start_ns(leaves_at) + offset_ns) +
                            transfer_ns(move, Direction::kWrite, size_bytes);
      if (!move.relay) free_ns = end_ns;
      if (offset_ns == 0) continue;
      const int64_t end = std::min(timeline.op_at(end_ns - offset_ns), period.end);
      move.free_from = last_stay(leaves_at, end, size_bytes, excess);
      excess.add(leaves_at, move.free_from, size_bytes);
    }
}

// Room for the relays that the plan before allows: until they rest in host memory, and while they
// pass the device. Those without room are none.
void NextUse::hold_relays(MemoryCurve& excess) {
  for (int32_t index : std::views::reverse(writers_in_order(problem_, moves_))) {
    std::optional<Relay>& relay = moves_[index].relay;
    if (!relay) continue;
    const int64_t size_bytes = problem_.size_bytes(index);
    const int64_t first = problem_.lifetimes.periods[index].first;
    if (excess.max(first, relay->rests_at) > -size_bytes ||
        excess.max(relay->reads_at, relay->free_from) > -size_bytes) {
      relay.reset();
      continue;
    }
    excess.add(first, relay->rests_at, size_bytes);
    excess.add(relay->reads_at, relay->free_from, size_bytes);
  }
}

// Returns the last op up to `end` before which the bytes may stay, from `first` on.
int64_t NextUse::last_stay(int64_t first, int64_t end, int64_t size_bytes,
                           const MemoryCurve& excess) const {
  int64_t low = first;
  while (low < end) {
    const int64_t middle = (low + end + 1) / 2;
    if (excess.max(first, middle) <= -size_bytes)
      low = middle;
    else
      end = middle - 1;
  }
  return low;
}

// Over the end of the iteration, only into memory that all others have left: of the tensors that
// the last ops use, parameters and optimizer states are used the latest.
void NextUse::return_in_order(MemoryCurve& excess) {
  for (PeriodMove& move : moves_) move.moved = true;
  const auto earliest = [&](int32_t index) {
    return is_over_the_end(index) ? problem_.op_count() : 0;
  };
  if (options_.reads_late)
    for (int32_t index : order_) {
      const bool stays = excess.max(moves_[index].free_from, moves_[index].needed_from) <=
                         -problem_.size_bytes(index);
      const int64_t latest = stays ? 0 : latest_reads_[index];
      return_from(std::max(earliest(index), latest), index, excess);
    }
  for (int32_t index : order_) return_from(earliest(index), index, excess);
  for (int32_t index : order_)
    if (is_over_the_end(index)) return_from(0, index, excess);
}

// The tensor comes back as early as memory allows, but not before `op`. One that waits to be freed
// has no next use: it stays when all of its bytes fit until then.
void NextUse::return_from(int64_t op, int32_t index, MemoryCurve& excess) {
  PeriodMove& move = moves_[index];
  const int64_t size_bytes = problem_.size_bytes(index);
  const int64_t earliest = std::min(std::max(op, move.free_from), move.needed_from);
  int64_t from = excess.last_above(earliest, move.needed_from, -size_bytes) + 1;
  if (problem_.lifetimes.periods[index].until_freed && from > move.free_from) return;
  excess.add(from, move.needed_from, size_bytes);
  move.needed_from = from;
  move.moved = from > move.free_from;
}

}  // namespace teraio::planner
