// PlanningPolicy: what the end of an iteration means for planning: whether a plan is made or a
// better one is searched for, which plan holds, and whether the next iteration is recorded. Pure
// functions over values.
//
// The first row that holds decides:
//
//   an iteration                                                step
//   whose plan is being made                                    kWait
//   as expected, the second one of its plan                     kReplan
//   as expected, far from its prediction, as the one before     kReplan
//   as expected, and nothing was searched for its plan yet      kSearch
//   as expected, or with a plan                                 kFollow
//   for which planning has failed                               kGiveUp
//   that a plan served, while planning takes too much time      kRecord
//   that was not recorded, or where nothing makes plans         kRecord
//   with the ops of the one before, or all but a few            kPlan
//   of a pattern that has a plan for other sizes                kPlan
//   that is the third one of its pattern                        kPlan
//   unlike the pattern that was followed, when a plan is due    kPlan
//   any other                                                   kRecord
//
// A plan is made again after two iterations because ops are slower beside I/O than in the profile,
// and one disturbed iteration must not decide. For the same reason it is made again when iterations
// are not what was predicted, and then with the times of these iterations. A plan serves what has
// nearly all of its ops in it: others for a few ops or other sizes gain less than they cost where
// hardly any iteration comes back.
#pragma once

#include <cstdint>

namespace teraio::learn {

constexpr int64_t kIterationsBeforeReplanning = 2;
constexpr int64_t kFarIterationsBeforeReplanning = 2;

// Whether an iteration took more than a tenth longer or less than was predicted.
bool is_far_from(int64_t predicted_ns, int64_t duration_ns);

// Whether plans that a program can do without may be made beside it: plans have taken at most 2 %
// of the time of its iterations so far. Both are sums.
bool is_affordable(int64_t planning_ns, int64_t iterations_ns);

// An iteration that has ended. A value.
struct IterationFacts {
  enum class Plan : uint8_t {
    kNone,
    kBeingMade,  // for the first time, or again
    kFailed,
    kMade,  // for these sizes, or for so many others that they serve these, too
  };

  bool was_as_expected = false;  // it had the ops and the sizes that were followed
  bool is_recorded = false;
  bool can_plan = true;  // something makes plans
  Plan plan = Plan::kNone;
  int64_t iterations_on_plan = 0;  // with this one; 0 unless all of its ops have ended
  int64_t far_iterations = 0;      // in a row with this one: see is_far_from()
  bool is_replanning_due = true;   // enough iterations have passed since that had it made again
  bool is_search_due = false;      // something searches, and has not for this plan
  bool is_repeated = false;        // the iteration before had all but a few of its ops
  // Nothing was followed or many of its ops had no place, and the last first plan is long ago.
  bool is_unlike_followed = false;
  bool is_served = false;              // nearly all of its ops had a place in a plan
  bool is_planning_affordable = true;  // see is_affordable()

  bool has_pattern = false;         // this one or another one with its ops was recorded
  bool is_pattern_planned = false;  // for some sizes
  bool is_pattern_full = false;     // no further sizes of it are recorded
  int64_t pattern_iterations = 0;   // with this one
};

enum class PlanningStep : uint8_t {
  kFollow,  // nothing: there is a plan, or no need for one
  kRecord,  // nothing yet: more iterations show whether this one comes back
  kWait,    // nothing until the plan is there
  kGiveUp,  // nothing: planning would fail again
  kPlan,
  kReplan,
  kSearch,  // for a better plan, while the one that there is holds
};

PlanningStep next_step(const IterationFacts& iteration);

// A search at the end of an iteration. A value.
struct SearchFacts {
  bool is_followed = false;  // the next iteration follows the plan that is to be improved
  bool has_ended = false;
  int64_t step_ns = 0;  // under the plan that it has found, as predicted; 0: it has found none
  int64_t step_before_ns = 0;  // under the plan that is to be improved
};

enum class SearchStep : uint8_t {
  kGoOn,
  kEnd,       // nothing comes of it
  kTakeOver,  // the plan that it has found holds from the next iteration on
};

// A search of a plan that the program has left ends. A plan takes over when it is at least 1 %
// better: a change of plans moves tensors, which takes time.
SearchStep next_search_step(const SearchFacts& search);

// Which iterations are recorded: each, until they are as expected or enough sizes of a planned
// pattern are known. An iteration without a pattern, such as an evaluation, may come back: the next
// ones are recorded for it. A value.
struct RecordingState {
  static constexpr int kAwaitedCount = 64;

  bool is_wanted = true;  // for the next iteration
  int awaited_count = 0;  // iterations to record for one that may come back
};

RecordingState next_recording(RecordingState state, const IterationFacts& iteration);

}  // namespace teraio::learn
