#include "planner/replay_chains.h"

#include <algorithm>
#include <utility>

namespace teraio::planner {
namespace {

// What comes back early takes at most this share of the budget.
constexpr double kEarlyShareMax = 1.0 / 8;
// A tensor may come back when less than this share of its period, in time, is left.
constexpr double kLeftShareMax = 0.75;

}  // namespace

ReplayChains::ReplayChains(const Problem& problem, const std::vector<ReplayCandidate>& candidates,
                           const std::vector<double>& op_ns)
    : candidates_(candidates),
      makers_(candidates.size()),
      readers_(candidates.size()),
      is_chosen_(candidates.size()),
      is_walked_(candidates.size()),
      early_bytes_max_(
          static_cast<int64_t>(kEarlyShareMax * static_cast<double>(problem.budget_bytes()))) {
  for (double ns : op_ns) start_ns_.push_back(start_ns_.back() + ns);
  std::vector<std::vector<int32_t>> makers_of(problem.index.tensor_count());
  for (size_t i = 0; i < candidates.size(); ++i) {
    int64_t first = candidates[i].end;
    for (int32_t p : candidates[i].periods) {
      const trace::InactivePeriod& period = problem.lifetimes.periods[p];
      first = std::min(first, period.first);
      makers_of[period.tensor].push_back(static_cast<int32_t>(i));
    }
    first_.push_back(first);
  }
  for (size_t i = 0; i < candidates.size(); ++i)
    for (trace::TensorIndex input : candidates[i].inputs)
      for (int32_t maker : makers_of[input]) {
        makers_[i].push_back(maker);
        readers_[maker].push_back(static_cast<int32_t>(i));
      }
}

bool ReplayChains::allow(int32_t candidate) {
  const bool is_late =
      walk_makers(candidate, candidates_[candidate].end) && walk_readers(candidate, candidate);
  int64_t bytes = 0;
  for (int32_t walked : std::exchange(walked_, {})) {
    const bool is_early = candidates_[walked].end != candidates_[candidate].end;
    if (is_early) bytes += candidates_[walked].size_bytes;
    is_walked_[walked] = false;
  }
  return is_late && bytes <= early_bytes_max_;
}

// Whether the candidate's tensors are discarded right before the op.
bool ReplayChains::is_away(int32_t candidate, int64_t op) const {
  return first_[candidate] <= op && op <= candidates_[candidate].end;
}

bool ReplayChains::is_far_from_end(int32_t candidate, int64_t op) const {
  const double end_ns = start_ns_[candidates_[candidate].end];
  return end_ns - start_ns_[op] > kLeftShareMax * (end_ns - start_ns_[first_[candidate]]);
}

// Visits those that are made again for the candidate before the op. Returns false when one of them
// is far from its end.
bool ReplayChains::walk_makers(int32_t candidate, int64_t op) {
  return std::ranges::all_of(makers_[candidate], [&](int32_t maker) {
    if (is_walked_[maker] || !is_chosen_[maker] || !is_away(maker, op)) return true;
    visit(maker);
    return !is_far_from_end(maker, op) && walk_makers(maker, op);
  });
}

// Visits those that `made` is made again for; `candidate` is one of them, or `made`. Returns false
// when `made` is far from its end there.
bool ReplayChains::walk_readers(int32_t candidate, int32_t made) {
  return std::ranges::all_of(readers_[candidate], [&](int32_t reader) {
    const int64_t op = candidates_[reader].end;
    if (is_walked_[reader] || !is_chosen_[reader]) return true;
    if (!is_away(candidate, op) || !is_away(made, op)) return true;
    visit(reader);
    return !is_far_from_end(made, op) && walk_readers(reader, made);
  });
}

void ReplayChains::visit(int32_t candidate) {
  is_walked_[candidate] = true;
  walked_.push_back(candidate);
}

}  // namespace teraio::planner
