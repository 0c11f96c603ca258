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

}  // namespace

TierChoice::TierChoice(const Problem& problem, const Timeline& timeline)
    : problem_(problem),
      timeline_(timeline),
      ssd_(hardware::ssd_rates(problem.hardware)),
      host_bytes_(problem.tier_capacity_bytes(Tier::kHost)),
      ssd_bytes_(problem.tier_capacity_bytes(Tier::kSsd)) {}

std::optional<MemoryCurve> TierChoice::choose(std::vector<PeriodMove>& moves) {
  is_urgent_.assign(problem_.lifetimes.epochs.size(), 0);
  std::optional<MemoryCurve> host;
  for (int round = 0; round < kUrgentRounds; ++round) {
    std::vector<Copy> copies = copies_of(moves);
    std::ranges::sort(copies, {},
                      [](const Copy& copy) { return std::pair(-copy.worth, copy.epoch); });
    host = assign(copies, moves);
    if (!host || ssd_bytes_ == 0 || host_bytes_ == 0 || !find_urgent(moves)) break;
  }
  return host;
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
