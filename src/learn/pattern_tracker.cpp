#include "learn/pattern_tracker.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "iteration/resized_profile.h"

namespace teraio::learn {
namespace {

// A plan is searched for so often while the program leaves the pattern before the search has ended.
constexpr int64_t kSearchesMax = 3;
// A prediction that new times do not mend, or a plan that could not be made, is tried again after
// 2, 4, 8, ... and then so many steps.
constexpr int64_t kStepsBetweenReplansMax = 64;
// An iteration is unlike the pattern that was followed when more of its ops had no place in it.
constexpr double kLostShareMax = 0.02;
// Without a plan, it repeats the pattern nearly when no more than these had none.
constexpr double kOtherShareMax = 0.05;
// So many of the first iterations may repeat as a whole yet.
constexpr int64_t kIterationsToRepeat = 8;
// Of so many ops that the program leaves out, the plan's actions are issued.
constexpr trace::OpIndex kSkippedMax = 8;

int64_t moving_bytes(std::span<const engine::Use> inputs) {
  int64_t total_bytes = 0;
  for (const engine::Use& use : inputs)
    if (use.tensor->record.persistence == engine::RecordState::Persistence::kNone)
      total_bytes += use.tensor->size_bytes;
  return total_bytes;
}

std::shared_ptr<Variant> newest_planned(const Pattern& pattern) {
  const auto& variants = pattern.variants();
  const auto found = std::find_if(variants.rbegin(), variants.rend(),
                                  [](const auto& variant) { return variant->is_planned(); });
  return found == variants.rend() ? variants.front() : *found;
}

// Where nothing moves, no plan is better; and the program may run far ahead of the device, so that
// its iterations do not last as long as the device's.
bool moves_tensors(const Variant& variant) {
  return variant.is_planned() && !variant.schedule->plan()->migrations.empty();
}

// How many steps pass before the next try, after so many in vain.
int64_t patience_after(int64_t tries) {
  return std::min(int64_t{1} << std::min<int64_t>(tries, 16), kStepsBetweenReplansMax);
}

// Whether a wrong prediction has the plan made again after so many steps on it.
bool is_replanning_due(const Variant& variant, int64_t steps) {
  return steps > patience_after(variant.far_replan_count);
}

// The schedule of the variant is a new one.
void set_plan_facts(Variant& variant, int64_t from_step) {
  variant.plan_facts = std::exchange(variant.next_plan_facts, {});
  variant.plan_facts.from_step = from_step;
  variant.steps_since_change = 0;
  variant.far_steps = 0;
}

IterationFacts::Plan plan_of(const Variant& variant) {
  if (variant.ticket != 0) return IterationFacts::Plan::kBeingMade;
  if (variant.is_planned()) return IterationFacts::Plan::kMade;
  return variant.planning_status.ok() ? IterationFacts::Plan::kNone : IterationFacts::Plan::kFailed;
}

}  // namespace

PatternTracker::PatternTracker(engine::PlannedMoves& followed, PatternTrackerOptions options)
    : followed_(followed),
      options_(std::move(options)),
      planning_(options_.make_plan, options_.improve_plan, options_.plans_in_background),
      library_(options_.library_bytes_max) {}

trace::OpIndex PatternTracker::advance(const iteration::OpSignature& signature,
                                       std::span<const engine::Use> inputs) {
  if (planning_.has_made()) take_made_plans();
  const uint64_t structure = structure_of(signature, inputs);
  now_.new_difference = 0;
  if (!follower_.expects(structure)) {
    note_other_op(structure);
    switch_pattern(structure);
  }
  const trace::OpIndex place = follower_.advance(structure);
  now_.prefix_hash = iteration::OpSequence::add_op(now_.prefix_hash, structure);
  now_.key.ops = iteration::add_to_signature(now_.key.ops, signature.structure);
  now_.key.sizes = iteration::add_to_signature(now_.key.sizes, signature.sizes);
  ++now_.op_count;
  if (place == iteration::kLost) return iteration::kLost;
  if (place <= now_.last_place || place > now_.last_place + kSkippedMax) followed_.jump_to(place);
  now_.last_place = place;
  if (variant_->profile().signatures[static_cast<size_t>(place)].sizes != signature.sizes)
    fit_sizes({place, signature.sizes, inputs.size(), moving_bytes(inputs)}, structure);
  ++now_.placed_op_count;
  now_.planned_op_count += variant_->is_planned();
  return place;
}

void PatternTracker::start_iteration() {
  follower_.start_iteration();
  now_ = {};
}

// Where the program runs what has been planned just now, it follows the plan from here on.
void PatternTracker::take_made_plans() {
  for (const PlanningThread::Made& made : planning_.take_made()) {
    for (const auto& pattern : library_.patterns()) {
      const std::shared_ptr<Variant> variant = pattern->take_made(made.ticket, made.schedule);
      if (variant == nullptr) continue;
      note_made(*variant, made.schedule.status());
      if (made.schedule.ok() && variant == variant_ && follower_.is_following())
        follow(*pattern_, variant, follower_.next(), engine::PlannedMoves::Known::kAllTensors);
      break;
    }
  }
}

void PatternTracker::note_made(Variant& variant, const Status& status) {
  if (status.ok()) {
    ended_.failed_plans = 0;
    return set_plan_facts(variant, ended_.count + 1);
  }
  ended_.last_failed = ended_.count;
  if (++ended_.failed_plans == 1)
    spdlog::warn("teraio: no plan, migrating on demand, which is slower: {}", full_text(status));
}

// What another stream has not finished with, or the framework has cached, counts as needed in the
// iteration that was recorded. A later one may need less.
bool PatternTracker::is_retry_due() const {
  return variant_ != nullptr && !variant_->is_in_use() && !variant_->planning_status.ok() &&
         ended_.count - ended_.last_failed >= patience_after(ended_.failed_plans);
}

void PatternTracker::follow(Pattern& pattern, std::shared_ptr<Variant> variant,
                            trace::OpIndex position, engine::PlannedMoves::Known known) {
  pattern_ = &pattern;
  variant_ = std::move(variant);
  followed_.follow(variant_->schedule, position, known);
  if (variant_->is_planned()) followed_.take_planned_places();
  if (known != engine::PlannedMoves::Known::kAllTensors)
    follower_.follow(pattern.sequence(), position);
  lay_out_if_alone();
}

// A layout holds for one schedule. Where a program changes between several, copies get their places
// as they are made.
void PatternTracker::lay_out_if_alone() {
  if (!is_planned()) return;
  int64_t planned_count = 0;
  for (const auto& pattern : library_.patterns())
    for (const auto& variant : pattern->variants()) planned_count += variant->is_planned();
  if (planned_count == 1) followed_.lay_out();
}

void PatternTracker::switch_pattern(uint64_t structure) {
  Pattern* other = library_.find_continuation(now_.prefix_hash, now_.op_count, structure);
  if (other == nullptr || other == pattern_) return;
  const bool is_exact_so_far = pattern_ != nullptr && !follower_.has_deviated() &&
                               follower_.next() == now_.op_count &&
                               !followed_.schedule().is_empty();
  follow(*other, newest_planned(*other), now_.op_count,
         is_exact_so_far ? engine::PlannedMoves::Known::kTensorsSoFar
                         : engine::PlannedMoves::Known::kPersistentTensors);
  now_.last_place = now_.op_count - 1;
}

void PatternTracker::fit_sizes(const SizesAtOp& at, uint64_t structure) {
  if (now_.is_first_difference && !is_telling(at, structure)) return;
  const bool is_first = std::exchange(now_.is_first_difference, false);
  if (!is_first && (now_.switches_left == 0 || Pattern::has_room(*variant_, at))) return;
  if (options_.make_plan && is_first && pattern_->is_planned() && is_planning_affordable())
    if (const auto wanted = pattern_->wanted(at))
      wanted->variant->ticket = planning_.request(wanted->profile);
  const std::shared_ptr<Variant> best = pattern_->fitting(at);
  if (best == nullptr || best == variant_) return;
  --now_.switches_left;
  follow(*pattern_, best, at.op, engine::PlannedMoves::Known::kAllTensors);
}

// Small tensors may hold the next batch, whose sizes tell nothing of this iteration. A batch that
// was made before the iteration is persistent to a profile, which then has no bytes there.
bool PatternTracker::is_telling(const SizesAtOp& at, uint64_t structure) {
  const iteration::Profile& first = pattern_->variants().front()->profile();
  const int64_t expected_bytes = bytes_at(first, at.op, at.input_count);
  if (expected_bytes == 0) return false;
  if (is_expected() && std::exchange(now_.is_first_other_size, false)) {
    const size_t entry = differences_.note_sizes(
        difference_at(at.op, Difference::Kind::kSizes, structure), first, expected_bytes, at.bytes);
    if (entry != 0) now_.new_difference = entry;
  }
  return std::max(expected_bytes, at.bytes) >= Pattern::kTellingBytes;
}

Difference PatternTracker::difference_at(trace::OpIndex position, Difference::Kind kind,
                                         uint64_t structure) const {
  return {.kind = kind, .pattern = pattern_->id, .position = position, .structure = structure};
}

void PatternTracker::note_other_op(uint64_t structure) {
  if (!follower_.is_following() || !is_expected() || !std::exchange(now_.is_first_other_op, false))
    return;
  now_.new_difference = differences_.note(
      difference_at(follower_.next(), Difference::Kind::kOps, structure), variant_->profile());
}

void PatternTracker::note_early_end() {
  if (!follower_.is_following() || !is_expected() || !now_.is_first_other_op ||
      follower_.next() == 0 || follower_.next() == pattern_->op_count())
    return;
  differences_.note(difference_at(follower_.next(), Difference::Kind::kEnd), variant_->profile());
}

engine::IterationRecord::Mode PatternTracker::mode() const {
  using Mode = engine::IterationRecord::Mode;
  if (!is_planned()) return Mode::kOnDemand;
  return follower_.is_exact_end() ? Mode::kPlanned : Mode::kDeviated;
}

bool PatternTracker::wants_times() const {
  if (wants_recording()) return true;
  if (!is_planned()) return false;
  return variant_->iterations_on_plan < kIterationsBeforeReplanning ||
         (variant_->far_steps > 0 &&
          is_replanning_due(*variant_, variant_->steps_since_change + 1));
}

void PatternTracker::end_iteration(const IterationEnd& end) {
  take_made_plans();
  ended_.count = end.step;
  // Iterations may have been joined.
  ended_.last_planned = std::min(ended_.last_planned, end.step);
  ended_.last_failed = std::min(ended_.last_failed, end.step);
  ended_.duration_ns += end.duration_ns;
  note_early_end();
  Pattern* ended = library_.find(now_.key.ops);
  was_as_expected_ = follower_.is_exact_end() && ended == pattern_ && variant_->is_measured &&
                     variant_->sizes == now_.key.sizes && is_expected();
  const std::shared_ptr<Variant> variant = was_as_expected_ ? variant_
                                           : end.record     ? record(ended, end)
                                                            : nullptr;
  last_ = variant;
  const IterationFacts iteration = describe(ended, variant.get(), end);
  carry_out(next_step(iteration), ended, variant, end);
  recording_ = next_recording(recording_, iteration);
  note_end(ended);
  take_made_plans();  // without a thread, they are there
  choose_next(ended);
  look_after_search();
  previous_key_ = now_.key;
}

void PatternTracker::carry_out(PlanningStep step, Pattern* ended,
                               const std::shared_ptr<Variant>& variant, const IterationEnd& end) {
  if (step == PlanningStep::kPlan) {
    request_plan(*ended, *variant, /*first_step=*/0, end);
    ended_.last_planned = ended_.count;
  }
  if (step == PlanningStep::kReplan) replan(*ended, *variant, end);
  if (step == PlanningStep::kSearch) search(variant);
}

// Returns the variant of the iteration; null: there are enough of the pattern. The newest profile
// of a pattern without a plan counts.
std::shared_ptr<Variant> PatternTracker::record(Pattern*& ended, const IterationEnd& end) {
  std::shared_ptr<Variant> variant = ended == nullptr ? nullptr : ended->measured(now_.key.sizes);
  if (variant != nullptr && variant->is_in_use()) return variant;
  iteration::Profile profile = end.record();
  if (ended != nullptr && ended->is_in_use() && ended->is_like(profile))
    return variant != nullptr || library_.is_full()
               ? variant
               : ended->add_measured(std::move(profile), now_.key.sizes);
  const bool is_newer = ended != nullptr && !ended->is_in_use();
  Pattern& added = is_newer ? library_.replace(*ended, std::move(profile), now_.key)
                            : library_.add(std::move(profile), now_.key);
  if (is_newer && pattern_ == ended) pattern_ = &added;
  ended = &added;
  return added.variants().front();
}

// `variant` is the one of the iteration; null: it was not recorded.
IterationFacts PatternTracker::describe(const Pattern* ended, Variant* variant,
                                        const IterationEnd& end) {
  IterationFacts iteration;
  iteration.was_as_expected = was_as_expected_;
  iteration.is_recorded = end.record != nullptr;
  iteration.can_plan = options_.make_plan != nullptr;
  if (ended == nullptr) return iteration;
  iteration.has_pattern = true;
  iteration.is_pattern_planned = ended->is_planned();
  iteration.is_pattern_full =
      ended->measured_count() == Pattern::kMeasuredMax || library_.is_full();
  iteration.pattern_iterations = ended->iteration_count + 1;
  if (was_as_expected_) {
    iteration.iterations_on_plan = count_on_plan(*variant, end);
    iteration.far_iterations = variant->far_steps;
    iteration.is_replanning_due = is_replanning_due(*variant, variant->steps_since_change);
    iteration.is_search_due = options_.improve_plan && searched_ == nullptr &&
                              moves_tensors(*variant) && variant->searches_left > 0 &&
                              ended->banned_ops.empty();
  }
  if (variant != nullptr)
    iteration.plan = plan_of(*variant);
  else if (iteration.is_recorded)
    iteration.plan = IterationFacts::Plan::kMade;
  if (was_as_expected_) return iteration;
  iteration.is_repeated = is_repeated() || is_nearly_repeated();
  iteration.is_unlike_followed = is_plan_due() && is_unlike_followed(kLostShareMax);
  iteration.is_served = is_planned() && !has_lost(kLostShareMax);
  iteration.is_planning_affordable = is_planning_affordable();
  return iteration;
}

// What never repeats as a whole repeats in parts, for which the plan of any iteration holds. The
// more iterations with a plan have not come back, the less the next one is likely to.
bool PatternTracker::is_plan_due() const {
  const int64_t patience = library_.has_plan() ? library_.unrepeated_plans() : kIterationsToRepeat;
  return ended_.count - ended_.last_planned >= patience;
}

// Without a thread, plans do not depend on how long anything takes.
bool PatternTracker::is_planning_affordable() const {
  const PlanningWork work = planning_.work();
  return !options_.plans_in_background ||
         (!work.is_planning && is_affordable(work.planning_ns, ended_.duration_ns));
}

bool PatternTracker::has_lost(double share, int64_t other_count) const {
  const int64_t lost_count = now_.op_count - now_.placed_op_count;
  return static_cast<double>(lost_count + other_count) > share * static_cast<double>(now_.op_count);
}

bool PatternTracker::is_unlike_followed(double share) const {
  return has_lost(share, pattern_ == nullptr ? 0 : std::abs(pattern_->op_count() - now_.op_count));
}

// The first step of a program often differs from the second one in what comes after it: a barrier,
// a line in a log. The second step of DDP makes new buckets; the third one finds them, so that they
// are persistent tensors from then on.
bool PatternTracker::is_nearly_repeated() const {
  return pattern_ != nullptr && pattern_ == library_.last() && !is_unlike_followed(kOtherShareMax);
}

// An op that could not begin has no time. An iteration beside the making of its plan does not
// count, so that a change of the machine meanwhile has the plan made once more.
int64_t PatternTracker::count_on_plan(Variant& variant, const IterationEnd& end) {
  if (end.op_count != variant.profile().op_count() || !variant.is_planned()) return 0;
  const auto change = options_.machine_change ? options_.machine_change() : std::nullopt;
  if (change) note_machine_change(*change);
  if (variant.ticket != 0) return variant.iterations_on_plan;
  compare_with_prediction(variant, end.duration_ns);
  return ++variant.iterations_on_plan;
}

// The first step on a plan also moves what the plan before has left elsewhere.
void PatternTracker::compare_with_prediction(Variant& variant, int64_t duration_ns) const {
  const bool is_first = variant.steps_since_change++ == 0;
  if (is_first || !options_.predicted_step_ns || !moves_tensors(variant)) return;
  if (now_.planned_op_count < now_.op_count) return;
  const int64_t predicted_ns = options_.predicted_step_ns(variant.profile().trace.name);
  const bool is_far = predicted_ns > 0 && is_far_from(predicted_ns, duration_ns);
  variant.far_steps = is_far ? variant.far_steps + 1 : 0;
}

// The plan that holds is made anew at once, those of other sizes and patterns after their next use.
void PatternTracker::note_machine_change(const std::string& change) {
  spdlog::warn("teraio: {}: training goes on, and plans are made again", change);
  for (const auto& pattern : library_.patterns())
    for (const auto& variant : pattern->variants())
      variant->iterations_on_plan = kIterationsBeforeReplanning - 1;
}

void PatternTracker::request_plan(const Pattern& pattern, Variant& variant, int64_t first_step,
                                  const IterationEnd& end) {
  auto profile = std::make_shared<iteration::Profile>(variant.profile());
  const TimedSteps own = {ended_.count, ended_.count};
  const TimedSteps steps = end.apply_times(*profile, first_step).value_or(own);
  variant.next_plan_facts = {.first_timed_step = steps.first, .last_timed_step = steps.last};
  variant.searches_left = kSearchesMax;
  for (const trace::OpIndex op : pattern.banned_ops)
    profile->trace.ops[static_cast<size_t>(op)].replayable = false;
  variant.ticket = planning_.request([profile] { return std::move(*profile); });
}

// After a plan that was followed for a while, the new plan uses only the op times of the steps that
// were far off. Before, it uses those since the plan, or since the first replan, began.
void PatternTracker::replan(const Pattern& pattern, Variant& variant, const IterationEnd& end) {
  if (searched_.get() == &variant) end_search();
  if (variant.far_steps > 0 && options_.note_wrong_prediction) options_.note_wrong_prediction();
  const PlanFacts& facts = variant.plan_facts;
  int64_t first_step = variant.far_replan_count > 0 ? facts.first_timed_step : facts.from_step;
  if (variant.iterations_on_plan > kIterationsBeforeReplanning) {
    first_step = ended_.count - variant.far_steps + 1;
    variant.iterations_on_plan = 0;
    ++variant.far_replan_count;
  }
  request_plan(pattern, variant, first_step, end);
}

void PatternTracker::search(const std::shared_ptr<Variant>& variant) {
  --variant->searches_left;
  searched_ = variant;
  planning_.search(variant->schedule);
}

void PatternTracker::end_search() {
  planning_.end_search();
  searched_.reset();
}

void PatternTracker::look_after_search() {
  if (searched_ == nullptr) return;
  SearchFacts search = {.is_followed = searched_ == variant_,
                        .has_ended = !planning_.work().is_searching};
  std::optional<PlanningThread::Found> found;
  if (search.has_ended) found = planning_.take_found();
  if (search.has_ended) searched_->searches_left = 0;
  if (found) search.step_ns = found->found.step_ns;
  if (found) search.step_before_ns = found->found.step_before_ns;
  const SearchStep step = next_search_step(search);
  if (step == SearchStep::kTakeOver) take_over(std::move(*found));
  if (step != SearchStep::kGoOn) end_search();
}

void PatternTracker::take_over(PlanningThread::Found found) {
  const auto& [plan, step_ns, step_before_ns, note_takeover] = found.found;
  if (note_takeover) note_takeover();
  variant_->next_plan_facts = variant_->plan_facts;
  variant_->next_plan_facts.is_found = true;
  variant_->next_plan_facts.gain =
      1 - static_cast<double>(step_ns) / static_cast<double>(step_before_ns);
  variant_->schedule = std::move(found.schedule);
  set_plan_facts(*variant_, ended_.count + 1);
  follow_next(*pattern_, variant_);
}

void PatternTracker::note_end(Pattern* ended) {
  library_.note_iteration(ended);
  if (ended == nullptr) return;
  ++ended->iteration_count;
  ended->ops_run += now_.op_count;
  ended->ops_planned += now_.planned_op_count;
}

void PatternTracker::choose_next(Pattern* ended) {
  if (Pattern* next = library_.most_frequent()) {
    const bool is_good = next == pattern_ && variant_->is_planned();
    follow_next(*next, is_good ? variant_ : newest_planned(*next));
    return library_.trim(pattern_);
  }
  // Without any plan, the last pattern is followed, so that eviction knows the next uses. Where
  // nothing is planned, it is when it has run twice in a row with equal sizes.
  const bool is_equal = is_repeated() && now_.key.sizes == previous_key_.sizes;
  if (ended == nullptr || (!options_.make_plan && !is_equal)) return;
  if (auto variant = ended->measured(now_.key.sizes)) follow_next(*ended, std::move(variant));
  library_.trim(pattern_);
}

void PatternTracker::follow_next(Pattern& pattern, std::shared_ptr<Variant> variant) {
  if (&pattern == pattern_ && variant->schedule.get() == &followed_.schedule()) return;
  follow(pattern, std::move(variant), 0, engine::PlannedMoves::Known::kPersistentTensors);
}

Status PatternTracker::planning_status() const {
  return variant_ == nullptr ? Status() : variant_->planning_status;
}

const trace::Trace* PatternTracker::last_trace() const {
  return last_ == nullptr ? nullptr : &last_->profile().trace;
}

std::vector<PatternSummary> PatternTracker::patterns() const {
  std::vector<PatternSummary> summaries;
  for (const auto& pattern : library_.patterns()) {
    const auto plan_count = std::ranges::count_if(
        pattern->variants(), [](const auto& variant) { return variant->is_planned(); });
    summaries.push_back({pattern->id, pattern->name(), pattern->op_count(),
                         pattern->iteration_count, pattern->ops_run, pattern->ops_planned,
                         plan_count, pattern->size_bytes(), pattern->is_irregular()});
  }
  return summaries;
}

int64_t PatternTracker::largest_of_profiles(
    const std::function<int64_t(const iteration::Profile&)>& function) const {
  int64_t largest = 0;
  for (const auto& pattern : library_.patterns())
    for (const auto& variant : pattern->variants())
      largest = std::max(largest, function(variant->profile()));
  return largest;
}

void PatternTracker::ban_replays(trace::OpIndex position) {
  if (pattern_ != nullptr && position != iteration::kLost) pattern_->banned_ops.push_back(position);
}

}  // namespace teraio::learn
