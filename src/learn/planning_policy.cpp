#include "learn/planning_policy.h"

#include <algorithm>
#include <cmath>

namespace teraio::learn {
namespace {

using It = const IterationFacts&;
using Plan = IterationFacts::Plan;

constexpr int64_t kIterationsThatMakeAPattern = 3;
constexpr double kFarShare = 0.1;
constexpr double kPlanningShareMax = 0.02;
constexpr double kTakeoverRatioMax = 0.99;

struct Row {
  bool (*holds)(It it);
  PlanningStep step;
};

// As in the header, in its order.
constexpr Row kRows[] = {
    {[](It it) { return it.plan == Plan::kBeingMade; }, PlanningStep::kWait},
    {[](It it) {
       return it.was_as_expected && it.iterations_on_plan == kIterationsBeforeReplanning;
     },
     PlanningStep::kReplan},
    {[](It it) {
       return it.was_as_expected && it.plan == Plan::kMade && it.is_replanning_due &&
              it.far_iterations >= kFarIterationsBeforeReplanning;
     },
     PlanningStep::kReplan},
    {[](It it) {
       return it.was_as_expected && it.is_search_due &&
              it.iterations_on_plan > kIterationsBeforeReplanning;
     },
     PlanningStep::kSearch},
    {[](It it) { return it.was_as_expected || it.plan == Plan::kMade; }, PlanningStep::kFollow},
    {[](It it) { return it.plan == Plan::kFailed; }, PlanningStep::kGiveUp},
    {[](It it) { return it.is_served && !it.is_planning_affordable; }, PlanningStep::kRecord},
    {[](It it) { return !it.is_recorded || !it.can_plan; }, PlanningStep::kRecord},
    {[](It it) { return it.is_repeated; }, PlanningStep::kPlan},
    {[](It it) { return it.is_pattern_planned; }, PlanningStep::kPlan},
    {[](It it) { return it.pattern_iterations >= kIterationsThatMakeAPattern; },
     PlanningStep::kPlan},
    {[](It it) { return it.is_unlike_followed; }, PlanningStep::kPlan},
    {[](It) { return true; }, PlanningStep::kRecord},
};

}  // namespace

PlanningStep next_step(const IterationFacts& iteration) {
  return std::ranges::find_if(kRows, [&](const Row& row) { return row.holds(iteration); })->step;
}

bool is_affordable(int64_t planning_ns, int64_t iterations_ns) {
  return static_cast<double>(planning_ns) <= kPlanningShareMax * static_cast<double>(iterations_ns);
}

bool is_far_from(int64_t predicted_ns, int64_t duration_ns) {
  const auto predicted = static_cast<double>(predicted_ns);
  return std::abs(static_cast<double>(duration_ns) - predicted) > kFarShare * predicted;
}

SearchStep next_search_step(const SearchFacts& search) {
  if (!search.is_followed) return SearchStep::kEnd;
  if (!search.has_ended) return SearchStep::kGoOn;
  const bool is_better =
      search.step_ns > 0 && static_cast<double>(search.step_ns) <=
                                kTakeoverRatioMax * static_cast<double>(search.step_before_ns);
  return is_better ? SearchStep::kTakeOver : SearchStep::kEnd;
}

RecordingState next_recording(RecordingState state, const IterationFacts& iteration) {
  if (!iteration.has_pattern)
    state.awaited_count = RecordingState::kAwaitedCount;
  else if (iteration.is_recorded && !iteration.was_as_expected)
    state.awaited_count = 0;
  else if (state.awaited_count > 0)
    --state.awaited_count;
  const bool is_enough =
      iteration.was_as_expected || (iteration.is_pattern_planned && iteration.is_pattern_full);
  state.is_wanted = !is_enough || state.awaited_count > 0;
  return state;
}

}  // namespace teraio::learn
