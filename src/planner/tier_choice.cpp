#include "planner/tier_choice.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace teraio::planner {
namespace {

using plan::Tier;

// The drives must have this many times the time of a read between the end of a write and the use.
constexpr double kReadSlack = 4;
// After so many rounds the copies that are late on the drives are no longer looked for.
constexpr int kUrgentRounds = 4;
constexpr double kUrgentWorth = 1e30;
// A relay takes at most this part of the device memory, and not for long.
constexpr int64_t kRelayPart = 32;
// What waits on the device until host memory has room takes at most this share of it.
constexpr double kHeldShare = 0.6;
// The second round knows what the drives write before the relays.
constexpr int kProposals = 2;

double transfer_ns(int64_t size_bytes, double bytes_per_second) {
  return static_cast<double>(size_bytes) / std::max(bytes_per_second, 1.0) * 1e9;
}

}  // namespace

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

TierChoice::TierChoice(const Problem& problem, const Timeline& timeline)
    : problem_(problem),
      timeline_(timeline),
      ssd_(hardware::ssd_rates(problem.hardware)),
      host_bytes_(problem.tier_capacity_bytes(Tier::kHost)),
      ssd_bytes_(problem.tier_capacity_bytes(Tier::kSsd)) {}

bool TierChoice::choose(std::vector<PeriodMove>& moves) {
  is_urgent_.assign(problem_.lifetimes.epochs.size(), 0);
  for (int round = 0; round < kUrgentRounds; ++round) {
    std::vector<Copy> copies = copies_of(moves);
    std::ranges::sort(copies, {},
                      [](const Copy& copy) { return std::pair(-copy.worth, copy.epoch); });
    host_ = assign(copies, moves);
    if (!host_) return false;
    if (ssd_bytes_ == 0 || host_bytes_ == 0 || !find_urgent(moves)) break;
  }
  leave_out_relays(moves);
  return true;
}

// Those that have become impossible.
void TierChoice::leave_out_relays(std::vector<PeriodMove>& moves) const {
  MemoryCurve use = *host_;
  for (size_t i = 0; i < moves.size(); ++i) {
    std::optional<Relay>& relay = moves[i].relay;
    if (!relay) continue;
    const int64_t size_bytes = problem_.size_bytes(static_cast<int32_t>(i));
    if (moves[i].moved && moves[i].writes && moves[i].tier == Tier::kSsd &&
        relay->free_from <= moves[i].needed_from &&
        use.max(relay->rests_at, relay->leaves_at) <= -size_bytes)
      use.add(relay->rests_at, relay->leaves_at, size_bytes);
    else
      relay.reset();
  }
}

// Returns the moves that write to the drives at the end of the iteration and come back in the next
// one, the last ones to leave first.
std::vector<int32_t> TierChoice::possible_relays(const std::vector<PeriodMove>& moves) const {
  std::vector<int32_t> possible = writers_in_order(problem_, moves);
  std::erase_if(possible, [&](int32_t index) {
    const trace::InactivePeriod& period = problem_.lifetimes.periods[index];
    return moves[index].tier != Tier::kSsd || period.end < problem_.op_count() ||
           kRelayPart * problem_.size_bytes(index) > problem_.budget_bytes();
  });
  std::ranges::reverse(possible);
  return possible;
}

// The drives write what cannot rest in host memory first, as it leaves, and then the relays.
void TierChoice::find_relays(std::vector<PeriodMove>& moves) const {
  const std::vector<int32_t> possible = possible_relays(moves);
  double start_ns = timeline_.step_ns();
  for (int round = 0; round < kProposals; ++round) {
    for (int32_t index : possible) moves[index].relay.reset();
    choose_relays(possible, start_ns, moves);
    start_ns = std::max(end_of_direct_writes(possible, moves), timeline_.step_ns());
  }
}

void TierChoice::choose_relays(const std::vector<int32_t>& possible, double start_ns,
                               std::vector<PeriodMove>& moves) const {
  MemoryCurve use = *host_;
  auto held_bytes = static_cast<int64_t>(kHeldShare * static_cast<double>(problem_.budget_bytes()));
  for (int32_t index : possible) {
    const int64_t size_bytes = problem_.size_bytes(index);
    const std::optional<Relay> relay = relay_at(start_ns, index, moves[index], use);
    if (!relay) continue;
    const bool is_held = relay->rests_at > problem_.lifetimes.periods[index].first;
    if (is_held && size_bytes > held_bytes) continue;
    if (is_held) held_bytes -= size_bytes;
    moves[index].relay = relay;
    use.add(relay->rests_at, relay->leaves_at, size_bytes);
    start_ns += write_ns(index);
  }
}

double TierChoice::end_of_direct_writes(const std::vector<int32_t>& possible,
                                        const std::vector<PeriodMove>& moves) const {
  double end_ns = 0;
  for (int32_t index : possible | std::views::reverse)
    if (!moves[index].relay)
      end_ns = std::max(end_ns, timeline_.start_ns(problem_.lifetimes.periods[index].first)) +
               write_ns(index);
  return end_ns;
}

// nullopt: host memory has no room until then, or the tensor comes back before.
std::optional<Relay> TierChoice::relay_at(double start_ns, int32_t index, const PeriodMove& move,
                                          const MemoryCurve& host) const {
  const int64_t size_bytes = problem_.size_bytes(index);
  const double read_ns =
      transfer_ns(size_bytes, problem_.hardware.host.rates.read_bytes_per_second);
  Relay relay;
  relay.reads_at = timeline_.op_at(start_ns);
  relay.leaves_at = std::max(timeline_.op_at(start_ns + read_ns), relay.reads_at + 1);
  relay.free_from =
      std::max(timeline_.op_at(start_ns + read_ns + write_ns(index)), relay.leaves_at + 1);
  const int64_t first = problem_.lifetimes.periods[index].first;
  relay.rests_at = host.last_above(first, relay.leaves_at, -size_bytes) + 1;
  const bool has_room = relay.rests_at < relay.reads_at;
  if (!has_room || relay.free_from > move.needed_from) return std::nullopt;
  return relay;
}

double TierChoice::write_ns(int32_t index) const {
  return transfer_ns(problem_.size_bytes(index), ssd_.write_bytes_per_second);
}

std::vector<TierChoice::Copy> TierChoice::copies_of(std::vector<PeriodMove>& moves) const {
  const std::vector<trace::CopyEpoch>& epochs = problem_.lifetimes.epochs;
  std::vector<Copy> copies;
  for (size_t i = 0; i < epochs.size(); ++i) {
    Copy copy{static_cast<int32_t>(i), problem_.size_bytes(epochs[i].periods.front())};
    bool exists = false;
    for (int32_t period : epochs[i].periods) {
      moves[period].writes = false;
      if (!moves[period].moved) continue;
      add_period(copy, period, moves[period], !exists);
      exists = true;
    }
    if (!exists) continue;
    if (epochs[i].never_written) copy.first = 0, copy.end = problem_.op_count();
    copy.end = std::min(copy.end, copy.first + problem_.op_count());
    const double rest_ns = timeline_.start_ns(copy.end) - timeline_.start_ns(copy.first);
    copy.worth = copy.saved_ns / static_cast<double>(copy.size_bytes) / std::max(rest_ns, 1.0);
    if (is_urgent_[i]) copy.worth += kUrgentWorth;
    copies.push_back(copy);
  }
  return copies;
}

void TierChoice::add_period(Copy& copy, int32_t index, PeriodMove& move, bool is_first) const {
  const trace::InactivePeriod& period = problem_.lifetimes.periods[index];
  if (is_first) {
    copy.first = problem_.position(index);
    move.writes = !problem_.lifetimes.epochs[copy.epoch].never_written;
    if (move.writes)
      copy.saved_ns +=
          transfer_ns(copy.size_bytes, ssd_.write_bytes_per_second) * timeline_.price(period.first);
  }
  copy.end = problem_.end_of_rest(index);
  if (!period.until_freed)
    copy.saved_ns +=
        transfer_ns(copy.size_bytes, ssd_.read_bytes_per_second) * timeline_.price(period.end - 1);
}

// Returns what host memory has in use; nullopt: the tiers have no room for all copies.
std::optional<MemoryCurve> TierChoice::assign(const std::vector<Copy>& copies,
                                              std::vector<PeriodMove>& moves) const {
  const auto room = [this](int64_t capacity_bytes) {
    const auto count = static_cast<size_t>(problem_.op_count());
    return MemoryCurve(std::vector<int64_t>(count, -capacity_bytes),
                       std::vector<double>(count, 0.0));
  };
  MemoryCurve host = room(host_bytes_);
  MemoryCurve ssd = room(ssd_bytes_);
  for (const Copy& copy : copies) {
    const auto fits = [&copy](const MemoryCurve& use) {
      return use.max(copy.first, copy.end) <= -copy.size_bytes;
    };
    const bool is_host = fits(host);
    if (!is_host && !fits(ssd)) return std::nullopt;
    (is_host ? host : ssd).add(copy.first, copy.end, copy.size_bytes);
    for (int32_t period : problem_.lifetimes.epochs[copy.epoch].periods)
      moves[period].tier = is_host ? Tier::kHost : Tier::kSsd;
  }
  return host;
}

// Marks the copies whose writes the drives would end too late, when they write in the order in
// which tensors leave. The second pass knows what is left over from the iteration before. Returns
// whether there are more than before.
bool TierChoice::find_urgent(const std::vector<PeriodMove>& moves) {
  bool any = false;
  double free_ns = 0;
  const std::vector<int32_t> writers = writers_in_order(problem_, moves);
  for (double offset_ns : {0.0, timeline_.step_ns()})
    for (int32_t index : writers) {
      if (moves[index].leaves_for() != Tier::kSsd) continue;
      const trace::InactivePeriod& period = problem_.lifetimes.periods[index];
      const int64_t size_bytes = problem_.size_bytes(index);
      const double end_ns = std::max(free_ns, timeline_.start_ns(period.first) + offset_ns) +
                            transfer_ns(size_bytes, ssd_.write_bytes_per_second);
      const double read_ns = kReadSlack * transfer_ns(size_bytes, ssd_.read_bytes_per_second);
      const bool is_late =
          !period.until_freed && end_ns + read_ns > timeline_.start_ns(period.end) + offset_ns;
      if (!is_late) {
        free_ns = end_ns;
        continue;
      }
      any |= !is_urgent_[period.epoch];
      is_urgent_[period.epoch] = 1;
    }
  return any;
}

}  // namespace teraio::planner
