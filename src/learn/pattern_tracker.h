// PatternTracker: learns the patterns of a program's iterations, has them planned, and tells before
// each op which plan holds and where in it the program is.
//
// Life of a pattern: iterations run on demand and are recorded. PlanningPolicy decides when a plan
// is made, and when again; the tracker carries that out. Once there is a plan:
//
//   an iteration begins           the plan of the pattern that was the most frequent one lately
//                                 holds
//   an op is another one          another pattern that began in the same way takes over; if there
//                                 is none, the follower looks for its place in this one
//   an op has other sizes         the plan of this pattern that fits them best takes over; if none
//                                 fits closely, one is asked for
//   a plan is ready               it takes over if it is for what runs now
//   a search has found a plan     it takes over with the next iteration if it is better
//
// A plan is made again with the times that ops had under the plan before.
//
// Threads: under the lock of its owner. Plans are made by a PlanningThread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/iteration_log.h"
#include "engine/planned_moves.h"
#include "engine/use.h"
#include "iteration/follower.h"
#include "iteration/signature.h"
#include "learn/difference_log.h"
#include "learn/op_time_history.h"
#include "learn/pattern_library.h"
#include "learn/planning_policy.h"
#include "learn/planning_thread.h"

namespace teraio::learn {

struct PatternTrackerOptions {
  MakePlan make_plan;        // empty: nothing is planned (but eviction knows the next uses)
  ImprovePlan improve_plan;  // empty: nothing is searched for
  bool plans_in_background = false;
  // Asked after every planned iteration: in what the machine differs from what the plans were made
  // for, for people; make_plan knows it then. Empty: it never does.
  std::function<std::optional<std::string>()> machine_change;
  // How long an iteration takes under the newest plan for the trace of this name, as predicted; 0:
  // that is not known. Empty: it never is.
  std::function<int64_t(const std::string& trace_name)> predicted_step_ns;
  // Called before a plan whose prediction did not hold is made again; make_plan knows then what the
  // machine has reached. Empty: nothing does.
  std::function<void()> note_wrong_prediction;
  int64_t library_bytes_max = 48 * kMiB;  // beyond the pattern that is followed
  bool records_all = false;               // last_trace() is known after each iteration
};

// Of one pattern so far. A value.
struct PatternSummary {
  int64_t id = 0;
  std::string name;  // what an iteration consists of: parts_of()
  int64_t op_count = 0;
  int64_t iteration_count = 0;
  int64_t ops_run = 0;
  int64_t ops_planned = 0;
  int64_t plan_count = 0;  // for different sizes
  int64_t size_bytes = 0;  // of memory that the library uses for it
  bool is_irregular = false;
};

class PatternTracker {
 public:
  // `followed`, which is told what to follow, outlives the tracker.
  PatternTracker(engine::PlannedMoves& followed, PatternTrackerOptions options);

  // An op begins. Returns its position in the schedule that is followed, or kLost.
  // new_difference() is set if the op differs from the pattern's in a way that is new.
  trace::OpIndex advance(const iteration::OpSignature& signature,
                         std::span<const engine::Use> inputs);

  void start_iteration();

  struct IterationEnd {
    // Returns the profile of the iteration, which has been recorded; empty: it has not.
    std::function<iteration::Profile()> record;
    // As OpTimeHistory::apply_to().
    std::function<std::optional<TimedSteps>(iteration::Profile&, int64_t first_step)> apply_times;
    int64_t step = 0;      // its number; the session's first one is 1
    int64_t op_count = 0;  // that have ended
    int64_t duration_ns = 0;
  };
  // The iteration has ended. What the next one follows is decided.
  void end_iteration(const IterationEnd& end);

  // The iteration that has ended had the ops and the sizes of the one that was followed.
  bool was_as_expected() const { return was_as_expected_; }
  // Whether somebody wants the next iteration to be recorded, or its ops to be timed.
  bool wants_recording() const {
    return recording_.is_wanted || options_.records_all || is_retry_due();
  }
  bool wants_times() const;
  // Whether an iteration with the ops of this one has been recorded before.
  bool is_known_pattern() const { return library_.find(now_.key.ops) != nullptr; }
  // Of the iteration that ends here: planned when it had exactly the ops of the plan that holds.
  engine::IterationRecord::Mode mode() const;

  // An iteration has followed plans from its first op to its last.
  bool has_planned_iteration() const { return library_.has_planned_iteration(); }
  bool is_following_plan() const { return is_planned() && follower_.is_following(); }
  // Whether what is followed is the program's iteration, and not the only one so far.
  bool knows_iteration() const { return variant_ != nullptr && is_expected(); }
  int64_t planned_op_count() const { return now_.planned_op_count; }  // of this iteration so far
  int64_t last_pattern() const { return library_.last_id(); }  // of the last iteration; 0: none
  // Of the plan that holds: ok, or why there is none.
  Status planning_status() const;
  int64_t deviation_count() const { return follower_.deviation_count(); }
  // How iterations have differed from the patterns that were followed.
  const DifferenceLog& differences() const { return differences_; }
  // The entry that the op which has begun last has added; 0: none.
  size_t new_difference() const { return now_.new_difference; }
  void set_place_of_difference(size_t entry, std::string op, std::string location) {
    differences_.set_place(entry, std::move(op), std::move(location));
  }
  PlanningWork planning_work() const { return planning_.work(); }
  // Of the plan that holds; nothing without one.
  std::optional<PlanFacts> plan_facts() const {
    return is_planned() ? std::optional(variant_->plan_facts) : std::nullopt;
  }
  std::vector<PatternSummary> patterns() const;
  // Of the last iteration; null: it is not known.
  const trace::Trace* last_trace() const;
  // Returns the largest of what the function returns for the known iterations; 0 without any.
  int64_t largest_of_profiles(
      const std::function<int64_t(const iteration::Profile&)>& function) const;

  // The op at `position` of the schedule gives other bytes when it runs again.
  void ban_replays(trace::OpIndex position);
  // No plan is made or searched for any more. Waits for the one that is being made.
  void stop() { planning_.stop(); }

 private:
  // Where sizes differ from op to op, another plan may not fit any better.
  static constexpr int kSwitchesPerIteration = 8;

  bool is_planned() const { return variant_ != nullptr && variant_->is_planned(); }
  void take_made_plans();
  void note_made(Variant& variant, const Status& status);
  void follow(Pattern& pattern, std::shared_ptr<Variant> variant, trace::OpIndex position,
              engine::PlannedMoves::Known known);
  void lay_out_if_alone();
  void switch_pattern(uint64_t structure);
  Difference difference_at(trace::OpIndex position, Difference::Kind kind,
                           uint64_t structure = 0) const;
  void note_other_op(uint64_t structure);
  void note_early_end();
  bool is_telling(const SizesAtOp& at, uint64_t structure);
  void fit_sizes(const SizesAtOp& at, uint64_t structure);
  std::shared_ptr<Variant> record(Pattern*& ended, const IterationEnd& end);
  IterationFacts describe(const Pattern* ended, Variant* variant, const IterationEnd& end);
  bool is_repeated() const { return now_.key.ops == previous_key_.ops; }
  bool is_plan_due() const;
  bool is_planning_affordable() const;
  // Whether the plan that could not be made is asked for again: the next iteration is recorded.
  bool is_retry_due() const;
  // A pattern whose plan is not asked for yet is followed only for eviction.
  bool is_expected() const {
    return variant_->is_in_use() || !options_.make_plan ||
           (!variant_->planning_status.ok() && !is_retry_due());
  }
  // Whether more than this share of the iteration's ops had no place, `other_count` more counting.
  bool has_lost(double share, int64_t other_count = 0) const;
  bool is_unlike_followed(double share) const;
  bool is_nearly_repeated() const;
  int64_t count_on_plan(Variant& variant, const IterationEnd& end);
  void compare_with_prediction(Variant& variant, int64_t duration_ns) const;
  void note_machine_change(const std::string& change);
  void carry_out(PlanningStep step, Pattern* ended, const std::shared_ptr<Variant>& variant,
                 const IterationEnd& end);
  void request_plan(const Pattern& pattern, Variant& variant, int64_t first_step,
                    const IterationEnd& end);
  void replan(const Pattern& pattern, Variant& variant, const IterationEnd& end);
  void search(const std::shared_ptr<Variant>& variant);
  void look_after_search();
  void take_over(PlanningThread::Found found);
  void end_search();
  void note_end(Pattern* ended);
  void choose_next(Pattern* ended);
  void follow_next(Pattern& pattern, std::shared_ptr<Variant> variant);

  // The iteration that runs, so far. Differences count once in it.
  struct Progress {
    uint64_t prefix_hash = iteration::kEmptySignature;
    Pattern::Key key = {iteration::kEmptySignature, iteration::kEmptySignature};
    trace::OpIndex op_count = 0;
    trace::OpIndex last_place = iteration::kLost;
    int64_t planned_op_count = 0;
    int64_t placed_op_count = 0;
    bool is_first_other_op = true;
    bool is_first_other_size = true;
    bool is_first_difference = true;  // of sizes that tell those of the rest
    size_t new_difference = 0;
    int switches_left = kSwitchesPerIteration;  // to other sizes
  };

  // The iterations that have ended.
  struct Ended {
    int64_t count = 0;
    int64_t duration_ns = 0;
    int64_t last_planned = 0;  // for whose ops or sizes a plan was asked for first
    int64_t last_failed = 0;   // after which a plan could not be made
    int64_t failed_plans = 0;  // in a row
  };

  engine::PlannedMoves& followed_;
  PatternTrackerOptions options_;
  PlanningThread planning_;
  PatternLibrary library_;
  iteration::Follower follower_;
  Pattern* pattern_ = nullptr;        // that is followed; null: none
  std::shared_ptr<Variant> variant_;  // of it
  std::shared_ptr<Variant> last_;     // of the last iteration; null: it is not known
  Progress now_;
  Pattern::Key previous_key_;  // of the iteration before
  RecordingState recording_;
  std::shared_ptr<Variant> searched_;  // whose plan a search improves; null: none does
  Ended ended_;
  bool was_as_expected_ = false;
  DifferenceLog differences_;
};

}  // namespace teraio::learn
