#include "planner/relay_choice.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace teraio::planner {
namespace {

using plan::Tier;

// A relay takes at most this part of the device memory, and not for long.
constexpr int64_t kRelayPart = 32;
// What waits on the device until host memory has room takes at most this share of it.
constexpr double kHeldShare = 0.6;
// The second round knows what the drives write before the relays.
constexpr int kProposals = 2;

}  // namespace

RelayChoice::RelayChoice(const Problem& problem, const Timeline& timeline, MemoryCurve host)
    : problem_(problem),
      timeline_(timeline),
      ssd_(hardware::ssd_rates(problem.hardware)),
      host_(std::move(host)) {}

// Returns the moves that write to the drives at the end of the iteration and come back in the next
// one, the last ones to leave first.
std::vector<int32_t> RelayChoice::possible_relays(const std::vector<PeriodMove>& moves) const {
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
void RelayChoice::find(std::vector<PeriodMove>& moves) const {
  const std::vector<int32_t> possible = possible_relays(moves);
  double start_ns = timeline_.step_ns();
  for (int round = 0; round < kProposals; ++round) {
    for (int32_t index : possible) moves[index].relay.reset();
    choose_relays(possible, start_ns, moves);
    start_ns = std::max(end_of_direct_writes(possible, moves), timeline_.step_ns());
  }
}

void RelayChoice::choose_relays(const std::vector<int32_t>& possible, double start_ns,
                                std::vector<PeriodMove>& moves) const {
  MemoryCurve use = host_;
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

double RelayChoice::end_of_direct_writes(const std::vector<int32_t>& possible,
                                         const std::vector<PeriodMove>& moves) const {
  double end_ns = 0;
  for (int32_t index : possible | std::views::reverse)
    if (!moves[index].relay)
      end_ns = std::max(end_ns, timeline_.start_ns(problem_.lifetimes.periods[index].first)) +
               write_ns(index);
  return end_ns;
}

// nullopt: host memory has no room until then, or the tensor comes back before.
std::optional<Relay> RelayChoice::relay_at(double start_ns, int32_t index, const PeriodMove& move,
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

double RelayChoice::write_ns(int32_t index) const {
  return transfer_ns(problem_.size_bytes(index), ssd_.write_bytes_per_second);
}

void leave_out_relays(const Problem& problem, MemoryCurve host, std::vector<PeriodMove>& moves) {
  for (size_t i = 0; i < moves.size(); ++i) {
    std::optional<Relay>& relay = moves[i].relay;
    if (!relay) continue;
    const int64_t size_bytes = problem.size_bytes(static_cast<int32_t>(i));
    if (moves[i].moved && moves[i].writes && moves[i].tier == Tier::kSsd &&
        relay->free_from <= moves[i].needed_from &&
        host.max(relay->rests_at, relay->leaves_at) <= -size_bytes)
      host.add(relay->rests_at, relay->leaves_at, size_bytes);
    else
      relay.reset();
  }
}

}  // namespace teraio::planner
