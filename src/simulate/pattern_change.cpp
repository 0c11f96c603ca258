#include "simulate/pattern_change.h"

#include <algorithm>
#include <array>

#include "simulate/joined_trace.h"
#include "simulate/simulator.h"

namespace teraio::simulate {
namespace {

// A step that follows one of its own pattern is among them, because a change may delay it too.
Result<Run> run_of_changes(const PlannedStep& first, const PlannedStep& second,
                           const hardware::Hardware& hardware, plan::Limits limits) {
  if (!share_tensors(first.trace, second.trace))
    return Status(ErrorCode::kInvalidArgument, "the traces have no persistent tensor in common");
  limits.write_budget_bytes.reset();
  const std::array steps = {first, first, second, second};
  const StepSequence sequence = join_steps(steps, hardware, limits);
  return simulate(sequence.trace, hardware, limits, sequence.plan);
}

PatternChange change_between(std::span<const PlannedStep> patterns, size_t first, size_t second,
                             const hardware::Hardware& hardware, const plan::Limits& limits) {
  PatternChange change{first, second, {}, {}};
  const Result<Run> all = run_of_changes(patterns[first], patterns[second], hardware, limits);
  change.status = all.status();
  if (!all.ok()) return change;
  const std::array<WeightedRun, 3> parts = {
      {{1, *all}, {-2, patterns[first].run}, {-2, patterns[second].run}}};
  change.cost = weighted_sum(parts);
  return change;
}

}  // namespace

std::vector<PatternChange> pattern_changes(std::span<const PlannedStep> patterns,
                                           const hardware::Hardware& hardware,
                                           const plan::Limits& limits) {
  std::vector<PatternChange> changes;
  for (size_t first = 0; first < patterns.size(); ++first)
    for (size_t second = first + 1; second < patterns.size(); ++second)
      changes.push_back(change_between(patterns, first, second, hardware, limits));
  return changes;
}

std::optional<Run> mean_run_in_random_order(std::span<const PatternRun> patterns,
                                            std::span<const PatternChange> changes) {
  if (!std::ranges::all_of(changes, &Status::ok, &PatternChange::status)) return std::nullopt;
  double shares = 0;
  for (const PatternRun& pattern : patterns) shares += pattern.share;
  const auto probability = [&](size_t i) { return patterns[i].share / shares; };
  std::vector<WeightedRun> runs;
  for (size_t i = 0; i < patterns.size(); ++i) runs.push_back({probability(i), patterns[i].run});
  for (const PatternChange& change : changes)
    runs.push_back({probability(change.first) * probability(change.second), change.cost});
  return weighted_sum(runs);
}

}  // namespace teraio::simulate
