#include "learn/pattern_tracker.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "iteration/resized_profile.h"

namespace teraio::learn {
namespace {

constexpr int64_t kIterationsBeforeRefining = 2;
constexpr int64_t kIterationsThatMakeAPattern = 3;
constexpr size_t kRecentPatterns = 8;
constexpr int kIterationsToAwaitUnknown = 64;
// Where sizes differ from op to op, another plan may not fit any better.
constexpr int kSwitchesPerIteration = 8;
// Iterations are nearly the same when they differ in at most this share of their ops.
constexpr double kOtherShareMax = 0.05;
// A pattern is planned at its first occurrence when following another one has lost more of its ops.
constexpr double kLostShareMax = 0.02;

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

}  // namespace

PatternTracker::PatternTracker(engine::Engine& engine, PatternTrackerOptions options)
    : engine_(engine),
      options_(std::move(options)),
      planning_(options_.make_plan, options_.plans_in_background),
      library_(options_.library_bytes_max) {}

trace::OpIndex PatternTracker::advance(const iteration::OpSignature& signature,
                                       std::span<const engine::Use> inputs) {
  if (planning_.has_made()) take_made_plans();
  const uint64_t structure = structure_of(signature, inputs);
  new_difference_ = 0;
  if (!follower_.expects(structure)) {
    note_other_op(structure);
    switch_pattern(structure);
  }
  const trace::OpIndex place = follower_.advance(structure);
  prefix_hash_ = iteration::OpSequence::add_op(prefix_hash_, structure);
  key_.ops = iteration::add_to_signature(key_.ops, signature.structure);
  key_.sizes = iteration::add_to_signature(key_.sizes, signature.sizes);
  ++op_count_;
  if (place == iteration::kLost) return iteration::kLost;
  if (place <= last_place_) engine_.go_back(place);
  last_place_ = place;
  if (variant_->profile().signatures[static_cast<size_t>(place)].sizes != signature.sizes)
    fit_sizes({place, signature.sizes, inputs.size(), moving_bytes(inputs)}, structure);
  ++placed_op_count_;
  planned_op_count_ += variant_->is_planned();
  return place;
}

void PatternTracker::start_iteration() {
  follower_.start_iteration();
  prefix_hash_ = iteration::kEmptySignature;
  key_ = {iteration::kEmptySignature, iteration::kEmptySignature};
  op_count_ = 0;
  last_place_ = iteration::kLost;
  planned_op_count_ = 0;
  placed_op_count_ = 0;
  is_first_other_op_ = true;
  is_first_other_size_ = true;
  is_first_difference_ = true;
  switches_left_ = kSwitchesPerIteration;
}

// Where the program runs what has been planned just now, it follows the plan from here on.
void PatternTracker::take_made_plans() {
  for (const PlanningThread::Made& made : planning_.take_made()) {
    for (const auto& pattern : library_.patterns()) {
      const std::shared_ptr<Variant> variant = pattern->take_made(made.ticket, made.schedule);
      if (variant == nullptr) continue;
      if (!made.schedule.ok())
        spdlog::warn("teraio: no plan, migrating on demand, which is slower: {}",
                     full_text(made.schedule.status()));
      else if (variant == variant_ && follower_.is_following())
        follow(*pattern_, variant, follower_.next(), engine::Engine::Known::kAllTensors);
      break;
    }
  }
}

void PatternTracker::follow(Pattern& pattern, std::shared_ptr<Variant> variant,
                            trace::OpIndex position, engine::Engine::Known known) {
  pattern_ = &pattern;
  variant_ = std::move(variant);
  engine_.follow(variant_->schedule, position, known);
  if (variant_->is_planned()) engine_.take_planned_places();
  if (known != engine::Engine::Known::kAllTensors) follower_.follow(pattern.sequence(), position);
  lay_out_if_alone();
}

// A layout holds for one schedule. Where a program changes between several, copies get their places
// as they are made.
void PatternTracker::lay_out_if_alone() {
  if (!is_planned()) return;
  int64_t planned_count = 0;
  for (const auto& pattern : library_.patterns())
    for (const auto& variant : pattern->variants()) planned_count += variant->is_planned();
  if (planned_count == 1) engine_.lay_out();
}

void PatternTracker::switch_pattern(uint64_t structure) {
  Pattern* other = library_.find_continuation(prefix_hash_, op_count_, structure);
  if (other == nullptr || other == pattern_) return;
  const bool is_exact_so_far = pattern_ != nullptr && !follower_.has_deviated() &&
                               follower_.next() == op_count_ && !engine_.schedule().is_empty();
  follow(*other, newest_planned(*other), op_count_,
         is_exact_so_far ? engine::Engine::Known::kTensorsSoFar
                         : engine::Engine::Known::kPersistentTensors);
  last_place_ = op_count_ - 1;
}

void PatternTracker::fit_sizes(const SizesAtOp& at, uint64_t structure) {
  if (is_first_difference_ && !is_telling(at, structure)) return;
  const bool is_first = std::exchange(is_first_difference_, false);
  if (!is_first && (switches_left_ == 0 || Pattern::has_room(*variant_, at))) return;
  if (options_.make_plan && is_first && pattern_->is_planned())
    if (auto profile = pattern_->profile_to_plan(at))
      pattern_->note_requested(at, planning_.request(std::move(*profile)));
  const std::shared_ptr<Variant> best = pattern_->fitting(at);
  if (best == nullptr || best == variant_) return;
  --switches_left_;
  follow(*pattern_, best, at.op, engine::Engine::Known::kAllTensors);
}

// Small tensors may hold the next batch, whose sizes tell nothing of this iteration. A batch that
// was made before the iteration is persistent to a profile, which then has no bytes there.
bool PatternTracker::is_telling(const SizesAtOp& at, uint64_t structure) {
  const iteration::Profile& first = pattern_->variants().front()->profile();
  const int64_t expected_bytes = bytes_at(first, at.op, at.input_count);
  if (expected_bytes == 0) return false;
  if (std::exchange(is_first_other_size_, false)) note_other_sizes(at, structure, expected_bytes);
  return std::max(expected_bytes, at.bytes) >= Pattern::kTellingBytes;
}

void PatternTracker::note_other_op(uint64_t structure) {
  if (!follower_.is_following() || !std::exchange(is_first_other_op_, false)) return;
  Difference difference;
  difference.kind = Difference::Kind::kOps;
  difference.pattern = pattern_->id;
  difference.position = follower_.next();
  difference.structure = structure;
  new_difference_ = differences_.note(difference, variant_->profile());
}

void PatternTracker::note_early_end() {
  if (!follower_.is_following() || !is_first_other_op_ || follower_.next() == 0 ||
      follower_.next() == pattern_->op_count())
    return;
  Difference difference;
  difference.kind = Difference::Kind::kEnd;
  difference.pattern = pattern_->id;
  difference.position = follower_.next();
  differences_.note(difference, variant_->profile());
}

void PatternTracker::note_other_sizes(const SizesAtOp& at, uint64_t structure,
                                      int64_t expected_bytes) {
  Difference difference;
  difference.kind = Difference::Kind::kSizes;
  difference.pattern = pattern_->id;
  difference.position = at.op;
  difference.structure = structure;
  const size_t entry = differences_.note_sizes(difference, pattern_->variants().front()->profile(),
                                               expected_bytes, at.bytes);
  if (entry != 0) new_difference_ = entry;
}

bool PatternTracker::wants_times() const {
  return wants_recording_ ||
         (is_planned() && variant_->iterations_on_plan < kIterationsBeforeRefining);
}

void PatternTracker::end_iteration(const IterationEnd& end) {
  take_made_plans();
  note_early_end();
  Pattern* ended = library_.find(key_.ops);
  was_as_expected_ = follower_.is_exact_end() && ended == pattern_ && variant_->is_measured &&
                     variant_->sizes == key_.sizes;
  if (was_as_expected_)
    refine(end);
  else if (end.record)
    ended = learn(ended, end);
  decide_about_recording(ended, end.record != nullptr);
  note_end(ended);
  take_made_plans();  // without a thread, they are there
  choose_next(ended);
  previous_key_ = key_;
}

// An iteration that nobody has recorded and that no pattern has had, such as an evaluation, may
// come back.
void PatternTracker::decide_about_recording(const Pattern* ended, bool is_recorded) {
  if (ended == nullptr)
    unknown_awaited_ = kIterationsToAwaitUnknown;
  else if (is_recorded && !was_as_expected_)
    unknown_awaited_ = 0;
  else if (unknown_awaited_ > 0)
    --unknown_awaited_;
  const bool is_enough = was_as_expected_ || (ended != nullptr && ended->is_planned() &&
                                              ended->measured_count() == Pattern::kMeasuredMax);
  wants_recording_ = !is_enough || unknown_awaited_ > 0;
}

// The iteration was none that there is a plan for. Returns its pattern.
Pattern* PatternTracker::learn(Pattern* ended, const IterationEnd& end) {
  const std::shared_ptr<Variant> variant = record(ended, end);
  if (variant == nullptr || variant->is_planned() || variant->ticket != 0) return ended;
  if (!variant->planning_status.ok()) return ended;  // it would fail again
  if (!options_.make_plan || !is_plan_wanted(*ended)) return ended;
  iteration::Profile profile = variant->profile();
  end.apply_times(profile);
  request(*variant, std::move(profile));
  return ended;
}

// Returns the variant of the iteration; null: there are enough of the pattern. The newest profile
// of a pattern without a plan counts.
std::shared_ptr<Variant> PatternTracker::record(Pattern*& ended, const IterationEnd& end) {
  std::shared_ptr<Variant> variant = ended == nullptr ? nullptr : ended->measured(key_.sizes);
  if (variant != nullptr && (variant->is_planned() || variant->ticket != 0)) return variant;
  iteration::Profile profile = end.record();
  if (ended != nullptr && ended->is_in_use() && ended->is_like(profile))
    return variant != nullptr ? variant : ended->add_measured(std::move(profile), key_.sizes);
  const bool is_newer = ended != nullptr && !ended->is_in_use();
  Pattern& added = is_newer ? library_.replace(*ended, std::move(profile), key_)
                            : library_.add(std::move(profile), key_);
  if (is_newer && pattern_ == ended) pattern_ = &added;
  ended = &added;
  return added.variants().front();
}

bool PatternTracker::is_plan_wanted(const Pattern& ended) const {
  const int64_t lost_count = op_count_ - placed_op_count_;
  const int64_t skipped_count =
      pattern_ == nullptr ? 0 : std::abs(pattern_->op_count() - op_count_);
  const bool is_like_another = static_cast<double>(lost_count + skipped_count) <=
                               kLostShareMax * static_cast<double>(op_count_);
  return is_repeated() || is_nearly_repeated(ended) || ended.is_planned() ||
         ended.iteration_count + 1 >= kIterationsThatMakeAPattern ||
         (library_.has_plan() && !is_like_another);
}

// The first step of a program often differs from the second one in what comes after it: a barrier,
// a line in a log. The second step of DDP makes new buckets; the third one finds them, so that they
// are persistent tensors from then on.
bool PatternTracker::is_nearly_repeated(const Pattern& ended) const {
  const Pattern* previous = library_.with_id(last_pattern_);
  if (previous == nullptr || previous == &ended) return false;
  const trace::OpIndex longer = std::max(ended.op_count(), previous->op_count());
  const trace::OpIndex other_count =
      longer - iteration::common_ends(ended.kinds(), previous->kinds());
  return static_cast<double>(other_count) <= kOtherShareMax * static_cast<double>(longer);
}

void PatternTracker::refine(const IterationEnd& end) {
  // An op that could not begin has no time.
  if (end.op_count != variant_->profile().op_count() || !is_planned()) return;
  const auto change = options_.machine_change ? options_.machine_change() : std::nullopt;
  if (change) note_machine_change(*change);
  if (++variant_->iterations_on_plan != kIterationsBeforeRefining && !change) return;
  if (variant_->ticket != 0) return;
  iteration::Profile profile = variant_->profile();
  end.apply_times(profile);
  for (const trace::OpIndex op : pattern_->banned_ops)
    profile.trace.ops[static_cast<size_t>(op)].replayable = false;
  request(*variant_, std::move(profile));
}

void PatternTracker::request(Variant& variant, iteration::Profile profile) {
  variant.ticket =
      planning_.request([profile = std::make_shared<iteration::Profile>(std::move(profile))] {
        return std::move(*profile);
      });
}

// The plan that holds is made anew at once, those of other sizes and patterns after their next use.
void PatternTracker::note_machine_change(const std::string& change) {
  spdlog::warn("teraio: {}: training goes on, and plans are made again", change);
  for (const auto& pattern : library_.patterns())
    for (const auto& variant : pattern->variants())
      variant->iterations_on_plan = kIterationsBeforeRefining - 1;
}

void PatternTracker::note_end(Pattern* ended) {
  last_pattern_ = ended == nullptr ? 0 : ended->id;
  recent_patterns_.push_back(last_pattern_);
  if (recent_patterns_.size() > kRecentPatterns) recent_patterns_.pop_front();
  if (ended == nullptr) return;
  library_.note_use(*ended);
  ++ended->iteration_count;
  ended->ops_run += op_count_;
  ended->ops_planned += planned_op_count_;
}

// Among patterns that were as frequent, the one that ran last.
Pattern* PatternTracker::most_frequent() const {
  Pattern* best = nullptr;
  std::pair<int64_t, uint64_t> best_score;
  for (const auto& pattern : library_.patterns()) {
    const int64_t count = std::ranges::count(recent_patterns_, pattern->id);
    const std::pair score = {count, pattern->last_used};
    if (!pattern->is_planned() || score < best_score) continue;
    best = pattern.get();
    best_score = score;
  }
  return best;
}

void PatternTracker::choose_next(Pattern* ended) {
  if (Pattern* next = most_frequent()) {
    const bool is_good = next == pattern_ && variant_->is_planned();
    follow_next(*next, is_good ? variant_ : newest_planned(*next));
    return library_.trim(pattern_);
  }
  // Without any plan, the last pattern is followed when it has run twice in a row, so that eviction
  // knows the next uses. Where nothing is planned, sizes count, too.
  const bool are_sizes_repeated = key_.sizes == previous_key_.sizes;
  if (ended == nullptr || !is_repeated() || (!options_.make_plan && !are_sizes_repeated)) return;
  if (auto variant = ended->measured(key_.sizes)) follow_next(*ended, std::move(variant));
  library_.trim(pattern_);
}

void PatternTracker::follow_next(Pattern& pattern, std::shared_ptr<Variant> variant) {
  if (&pattern == pattern_ && variant->schedule.get() == &engine_.schedule()) return;
  follow(pattern, std::move(variant), 0, engine::Engine::Known::kPersistentTensors);
}

Status PatternTracker::planning_status() const {
  return variant_ == nullptr ? Status() : variant_->planning_status;
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

void PatternTracker::ban_replays(trace::OpIndex position) {
  if (pattern_ != nullptr && position != iteration::kLost) pattern_->banned_ops.push_back(position);
}

}  // namespace teraio::learn
