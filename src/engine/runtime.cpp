#include "engine/runtime.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "engine/signature.h"

namespace teraio::engine {
namespace {

// A number that only the calling thread has.
uintptr_t thread_tag() {
  static thread_local char tag;
  return reinterpret_cast<uintptr_t>(&tag);
}

constexpr size_t kLongestPeriod = 8;  // steps
// A program that runs this many ops without a step is not training; it is not recorded for ever.
constexpr int64_t kLongestIterationOps = 2'000'000;
constexpr int64_t kIterationsBeforeRefining = 2;
// Whose op times are looked at together. What disturbs an op makes it longer, so that of two times
// the shorter one counts, and of three the middle one.
constexpr size_t kTimedIterations = 3;

int64_t middle_of(std::vector<int64_t>& times) {
  const auto middle = times.begin() + static_cast<ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return std::max<int64_t>(*middle, 0);
}

const Status& status_of(const Status& status) { return status; }
template <typename T>
Status status_of(const Result<T>& result) {
  return result.status();
}

}  // namespace

Runtime::Runtime(RuntimeOptions options) : options_(std::move(options)), engine_(options_.engine) {
  start_iteration();
}

// For the oldest. One whose end will never be known stays pinned.
bool Runtime::wait_for_keep() {
  if (kept_.empty()) return false;
  const Kept oldest = std::move(kept_.front());
  kept_.erase(kept_.begin());
  if (options_.engine.device->wait(oldest.end).ok()) unpin(oldest.tensors);
  return true;
}

// Again while it fails for want of memory, and other streams have some that they will not need.
template <typename Call>
auto Runtime::with_kept(Call call) {
  auto result = call();
  while (status_of(result).code() == ErrorCode::kOutOfMemory && wait_for_keep()) result = call();
  return result;
}

Result<LiveTensor*> Runtime::allocate(int64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  Result<LiveTensor*> tensor = with_kept([&] { return engine_.allocate(size_bytes); });
  if (!tensor.ok() || !is_active_) return tensor;
  (*tensor)->birth_thread = thread_tag();
  births_.push_back(*tensor);
  born_bytes_ += size_bytes;
  born_peak_bytes_ = std::max(born_peak_bytes_, born_bytes_);
  return tensor;
}

void Runtime::release(LiveTensor* tensor) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(tensor->is_address_known, false)) engine_.unhold(tensor);
  if (tensor->pin_count == 0) return free_tensor(tensor);
  tensor->is_dropped_in_use = true;
  options_.engine.swap->forget(*tensor);
}

void Runtime::free_dropped(std::span<const Use> uses) {
  for (const Use& use : uses)
    if (use.tensor->is_dropped_in_use && use.tensor->pin_count == 0) free_tensor(use.tensor);
}

void Runtime::free_tensor(LiveTensor* tensor) {
  if (is_active_) {
    forget_birth(*tensor);
    recorder_.record_death(*tensor);
  }
  engine_.release(tensor);
}

void Runtime::forget_birth(const LiveTensor& tensor) {
  const auto found = std::find(births_.rbegin(), births_.rend(), &tensor);
  if (found == births_.rend()) return;
  born_bytes_ -= tensor.size_bytes;
  births_.erase(std::next(found).base());
}

Status Runtime::begin_op(OpFrame& frame, uint64_t signature) {
  const std::lock_guard lock(mutex_);
  if (!is_active_) return {};
  if (!kept_.empty()) end_keeps();
  frame.input_count = frame.uses.size();
  if (!has_step_hook_ && begins_new_update(frame.uses)) end_segment();
  frame.position = follower_.advance(signature);
  const Status status = with_kept([&] { return engine_.begin_op(frame.position, frame.uses); });
  frame.is_begun = status.ok();
  if (!status.ok()) free_dropped(frame.uses);
  return status;
}

int64_t Runtime::take_workspace_bytes() {
  const int64_t workspace_bytes = born_peak_bytes_ - born_bytes_;
  born_bytes_ = 0;
  born_peak_bytes_ = 0;
  return workspace_bytes;
}

void Runtime::end_op(OpFrame& frame, std::string_view name, uint64_t signature, bool is_complete) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(frame.is_begun, false)) return;
  engine_.end_op(frame.position, frame.uses, frame.input_count);
  if (is_active_) note_op(frame, name, signature, is_complete);
  free_dropped(std::span(frame.uses).first(frame.input_count));
  if (is_active_ && options_.evict_after_every_op) {
    if (const Status status = engine_.evict_everything(); !status.ok())
      spdlog::error("teraio: {}", status.message());
  }
}

// They stand first after this. Other threads' ops are still at work on theirs.
std::span<LiveTensor* const> Runtime::births_of_this_thread() {
  if (births_.empty()) return {};
  const auto is_mine = [tag = thread_tag()](LiveTensor* t) { return t->birth_thread == tag; };
  const auto others = std::find_if_not(births_.begin(), births_.end(), is_mine);
  if (others == births_.end()) return births_;
  return {births_.begin(), std::stable_partition(others, births_.end(), is_mine)};
}

// How long the op that ends took, 0 when nobody wants to know: reading the clock costs a good part
// of what the hooks cost.
int64_t Runtime::note_time() {
  const int64_t device_bytes = options_.engine.device->allocated_bytes();
  const bool is_change = samples_.empty() || samples_.back().device_bytes != device_bytes;
  if (!is_change && !are_ops_timed_) return 0;
  const int64_t now_ns = options_.engine.clock->now_ns();
  if (is_change) samples_.push_back({now_ns - iteration_start_ns_, device_bytes});
  if (!are_ops_timed_) return 0;
  const int64_t stall_ns = engine_.counters().stall_ns();
  const int64_t duration_ns = now_ns - last_op_end_ns_ - (stall_ns - last_op_end_stall_ns_);
  durations_ns_.push_back(duration_ns);
  if (options_.op_timer != nullptr) options_.op_timer->end_op();
  last_op_end_ns_ = now_ns;
  last_op_end_stall_ns_ = stall_ns;
  return duration_ns;
}

void Runtime::note_op(const OpFrame& frame, std::string_view name, uint64_t signature,
                      bool is_complete) {
  const std::span<LiveTensor* const> births = births_of_this_thread();
  if (is_complete)
    for (LiveTensor* newborn : births) newborn->is_seen_as_input = true;
  const int64_t workspace_bytes = take_workspace_bytes();
  const int64_t duration_ns = note_time();
  if (is_recording_) {
    OpRecord record;
    record.name = name;
    record.signature = signature;
    record.uses = frame.uses;
    record.births = births;
    record.duration_ns = duration_ns;
    record.workspace_bytes = workspace_bytes;
    recorder_.record_op(record);
  }
  births_.erase(births_.begin(), births_.begin() + static_cast<ptrdiff_t>(births.size()));
  sequence_hash_ = combine_signatures(sequence_hash_, signature);
  segment_hash_ = combine_signatures(segment_hash_, signature);
  ++op_count_;
  if (op_count_ >= kLongestIterationOps) start_iteration();
}

Status Runtime::hold(LiveTensor* tensor) {
  const std::lock_guard lock(mutex_);
  return with_kept([&] { return engine_.hold(tensor); });
}

void Runtime::unhold(LiveTensor* tensor) {
  const std::lock_guard lock(mutex_);
  unpin(std::span(&tensor, 1));
}

void Runtime::unpin(std::span<LiveTensor* const> tensors) {
  for (LiveTensor* tensor : tensors) {
    engine_.unhold(tensor);
    const Use use = {tensor, false};
    free_dropped(std::span(&use, 1));
  }
}

void Runtime::keep_for_stream(void* stream, std::span<const Use> uses) {
  const std::lock_guard lock(mutex_);
  if (!is_active_) return;
  Kept kept = {options_.engine.device->record_on(stream), {}};
  for (const Use& use : uses) {
    if (!engine_.hold(use.tensor).ok()) continue;  // the run has failed: nothing moves any more
    if (use.is_write) engine_.mark_written(use.tensor);
    kept.tensors.push_back(use.tensor);
  }
  kept_.push_back(std::move(kept));
}

void Runtime::end_keeps() {
  const auto has_ended = [&](const Kept& kept) {
    if (!options_.engine.device->has_passed(kept.end)) return false;
    unpin(kept.tensors);
    return true;
  };
  kept_.erase(std::remove_if(kept_.begin(), kept_.end(), has_ended), kept_.end());
}

Status Runtime::hold_for_good(LiveTensor* tensor) {
  const std::lock_guard lock(mutex_);
  if (tensor->is_address_known) return {};
  TERAIO_RETURN_IF_ERROR(engine_.hold(tensor));
  engine_.mark_written(tensor);
  tensor->is_address_known = true;
  return {};
}

void Runtime::mark_written(LiveTensor* tensor) {
  const std::lock_guard lock(mutex_);
  engine_.mark_written(tensor);
}

void Runtime::while_nothing_moves(const std::function<void()>& call) {
  const std::lock_guard lock(mutex_);
  call();
}

void Runtime::describe(LiveTensor* tensor, trace::TensorKind kind, std::string name) {
  const std::lock_guard lock(mutex_);
  if (is_active_) recorder_.describe(*tensor, kind, std::move(name));
}

void Runtime::start_iteration() {
  engine_.start_iteration();
  follower_.start_iteration();
  if (is_recording_) recorder_.start(engine_.next_id());
  sequence_hash_ = kEmptySignature;
  segment_hash_ = kEmptySignature;
  segment_in_iteration_ = 0;
  durations_ns_.clear();
  op_count_ = 0;
  iteration_start_ns_ = options_.engine.clock->now_ns();
  last_op_end_ns_ = iteration_start_ns_;
  counters_at_start_ = engine_.counters();
  last_op_end_stall_ns_ = counters_at_start_.stall_ns();
  for (size_t tier = 0; tier < kTierCount; ++tier)
    if (const storage::TierStore* store = options_.engine.stores[tier])
      tiers_at_start_[tier] = store->counters();
  last_samples_ = std::exchange(samples_, {});
  samples_.reserve(last_samples_.size());
  options_.engine.device->reset_peak();
  // Where plans come from these times: not once a plan has been refined.
  are_ops_timed_ =
      is_recording_ || (is_planned_ && iterations_on_plan_ < kIterationsBeforeRefining);
  if (are_ops_timed_ && options_.op_timer != nullptr) options_.op_timer->start();
}

void Runtime::note_iteration() {
  IterationRecord record;
  record.duration_ns = options_.engine.clock->now_ns() - iteration_start_ns_;
  record.stall_read_ns = engine_.counters().stall_read_ns - counters_at_start_.stall_read_ns;
  record.stall_memory_ns = engine_.counters().stall_memory_ns - counters_at_start_.stall_memory_ns;
  const auto moved = [&](plan::Tier tier) {
    const auto i = static_cast<size_t>(tier);
    const storage::TierStore* store = options_.engine.stores[i];
    const storage::TierCounters now =
        store == nullptr ? storage::TierCounters() : store->counters();
    return std::pair(now.bytes_read - tiers_at_start_[i].bytes_read,
                     now.bytes_written - tiers_at_start_[i].bytes_written);
  };
  std::tie(record.ssd_bytes_read, record.ssd_bytes_written) = moved(plan::Tier::kSsd);
  std::tie(record.host_bytes_read, record.host_bytes_written) = moved(plan::Tier::kHost);
  record.device_peak_bytes = options_.engine.device->usage().allocated_peak_bytes;
  record.op_count = op_count_;
  if (is_planned_)
    record.mode = follower_.is_exact_end() ? IterationRecord::Mode::kPlanned
                                           : IterationRecord::Mode::kDeviated;
  iterations_.push_back(record);
}

void Runtime::begin_step() {
  const std::lock_guard lock(mutex_);
  has_step_hook_ = true;
}

void Runtime::end_step() {
  const std::lock_guard lock(mutex_);
  if (is_active_) end_segment();
}

void Runtime::begin_own_work() {
  const std::lock_guard lock(mutex_);
  own_work_start_ns_ = options_.engine.clock->now_ns();
}

void Runtime::end_own_work() {
  const std::lock_guard lock(mutex_);
  const int64_t duration_ns = options_.engine.clock->now_ns() - own_work_start_ns_;
  last_op_end_ns_ += duration_ns;
  iteration_start_ns_ += duration_ns;
  if (are_ops_timed_ && options_.op_timer != nullptr) options_.op_timer->leave_out();
}

// A parameter is changed for a second time in this segment, and was used in between: the update of
// another step begins. Changes without a use between them belong to one update.
bool Runtime::begins_new_update(std::span<const Use> uses) {
  bool is_new = false;
  for (const Use& use : uses) {
    LiveTensor& tensor = *use.tensor;
    if (!tensor.is_parameter) continue;
    if (!use.is_write) {
      tensor.is_used_since_update = true;
      continue;
    }
    is_new |= tensor.is_used_since_update && tensor.updated_in_segment == segment_count_;
    tensor.is_used_since_update = false;
  }
  if (is_new) ++segment_count_;
  for (const Use& use : uses)
    if (use.is_write) use.tensor->updated_in_segment = segment_count_;
  return is_new;
}

void Runtime::end_segment() {
  if (op_count_ == 0) return;
  segment_hashes_.push_back(std::exchange(segment_hash_, kEmptySignature));
  if (segment_hashes_.size() > 2 * kLongestPeriod) segment_hashes_.erase(segment_hashes_.begin());
  if (++segment_in_iteration_ >= segments_per_iteration_) end_iteration();
}

void Runtime::end_iteration() {
  note_iteration();
  keep_op_times();
  if (follower_.is_exact_end()) {
    is_recording_ = false;
    refine_plan();
  } else {
    learn();
  }
  previous_sequence_hash_ = sequence_hash_;
  start_iteration();
}

// The iteration that just ended did not follow the profile. When the one before was equal to it, it
// is the new profile; otherwise the next one is recorded to find out.
void Runtime::learn() {
  const bool is_repeated = sequence_hash_ == previous_sequence_hash_;
  if (is_repeated && is_recording_) {
    Profile profile = recorder_.finish(engine_.live(), [this](const LiveTensor& tensor) {
      return engine_.can_leave(tensor) || tensor.residency != Residency::kResident ||
             tensor.is_arriving;
    });
    take_op_times(profile);
    adopt_profile(std::move(profile));
  } else {
    find_period();
  }
  is_recording_ = true;
}

// Steps that differ from each other but repeat in a row of a few make one iteration together.
void Runtime::find_period() {
  const auto end = segment_hashes_.end();
  for (size_t period = 1; 2 * period <= segment_hashes_.size() && period <= kLongestPeriod;
       ++period) {
    const auto length = static_cast<ptrdiff_t>(period);
    if (!std::equal(end - length, end, end - 2 * length)) continue;
    segments_per_iteration_ = static_cast<int64_t>(period);
    return;
  }
}

bool Runtime::is_new_plan_due() {
  const auto change = options_.machine_change ? options_.machine_change() : std::nullopt;
  if (change) spdlog::warn("teraio: {}: planning anew", *change);
  return ++iterations_on_plan_ == kIterationsBeforeRefining || change;
}

// The profile was recorded while tensors moved on demand; op times under the plan are nearer to
// those that it meets. Planned once more with them, after the first iterations that followed it,
// and whenever the drives are not what they were.
void Runtime::refine_plan() {
  // An op that could not begin has no time.
  if (op_count_ != engine_.schedule().profile().op_count()) return;
  if (!is_planned_ || given_plan_ || !is_new_plan_due()) return;
  Profile profile = engine_.schedule().profile();
  take_op_times(profile);
  adopt_profile(std::move(profile));
  iterations_on_plan_ = kIterationsBeforeRefining;
}

// Of the iteration that just ended. A timer is read, and waited for, only where the iteration is
// one that plans come from.
void Runtime::keep_op_times() {
  const bool is_repeated = sequence_hash_ == previous_sequence_hash_;
  if (!is_repeated) kept_durations_ns_.clear();
  if (!std::exchange(are_ops_timed_, false)) return;
  if (options_.op_timer != nullptr) {
    if (!is_repeated) return;
    Result<std::vector<int64_t>> times = options_.op_timer->durations_ns();
    if (!times.ok()) return spdlog::warn("teraio: no op times: {}", times.status().message());
    durations_ns_ = std::move(*times);
  }
  std::vector<int64_t> spare;  // its memory is for the next iteration
  if (kept_durations_ns_.size() == kTimedIterations) {
    spare = std::move(kept_durations_ns_.front());
    kept_durations_ns_.pop_front();
  }
  kept_durations_ns_.push_back(std::exchange(durations_ns_, std::move(spare)));
}

// The profile's ops are those of the iteration that just ended. Without times it keeps its own.
// Every iteration has some op that is disturbed, and each time another one: the middles of all ops
// together are less than an iteration takes. So they are stretched to the middle iteration.
void Runtime::take_op_times(Profile& profile) const {
  std::vector<trace::Op>& ops = profile.trace.ops;
  std::vector<const std::vector<int64_t>*> iterations;
  for (const std::vector<int64_t>& durations_ns : kept_durations_ns_)
    if (durations_ns.size() == ops.size()) iterations.push_back(&durations_ns);
  if (iterations.empty()) return;
  std::vector<int64_t> times;
  for (const auto* durations_ns : iterations)
    times.push_back(std::accumulate(durations_ns->begin(), durations_ns->end(), int64_t{0}));
  const int64_t iteration_ns = middle_of(times);
  int64_t ops_ns = 0;
  for (size_t op = 0; op < ops.size(); ++op) {
    for (size_t i = 0; i < iterations.size(); ++i) times[i] = (*iterations[i])[op];
    ops[op].duration_ns = middle_of(times);
    ops_ns += ops[op].duration_ns;
  }
  if (ops_ns == 0) return;
  const double stretch = static_cast<double>(iteration_ns) / static_cast<double>(ops_ns);
  for (trace::Op& op : ops)
    op.duration_ns = std::llround(static_cast<double>(op.duration_ns) * stretch);
}

void Runtime::adopt_profile(Profile profile) {
  plan_ = given_plan_.value_or(plan::Plan());
  planning_status_ = Status();
  is_planned_ = given_plan_.has_value();
  iterations_on_plan_ = 0;
  if (!is_planned_ && options_.make_plan) {
    Result<plan::Plan> made = options_.make_plan(profile);
    is_planned_ = made.ok();
    planning_status_ = made.status();
    if (made.ok()) plan_ = std::move(*made);
  }
  if (!planning_status_.ok())
    spdlog::warn("teraio: no plan, migrating on demand: {}", planning_status_.message());
  follower_.follow(profile.signatures);
  engine_.follow(Schedule(std::move(profile), plan_));
}

Status Runtime::stop() {
  const std::lock_guard lock(mutex_);
  while (wait_for_keep()) continue;
  is_active_ = false;
  births_.clear();
  TERAIO_RETURN_IF_ERROR(engine_.bring_everything_back());
  engine_.leave_stores();
  options_.engine.stores = {};
  return {};
}

void Runtime::abandon() {
  const std::lock_guard lock(mutex_);
  is_active_ = false;
  births_.clear();
  engine_.leave_everything_behind();
  options_.engine.stores = {};
}

std::optional<trace::Trace> Runtime::trace() const {
  const std::lock_guard lock(mutex_);
  if (engine_.schedule().is_empty()) return std::nullopt;
  return engine_.schedule().profile().trace;
}

bool Runtime::has_trace() const {
  const std::lock_guard lock(mutex_);
  return !engine_.schedule().is_empty();
}

std::optional<plan::Plan> Runtime::current_plan() const {
  const std::lock_guard lock(mutex_);
  if (!is_planned_) return std::nullopt;
  return plan_;
}

std::vector<IterationRecord> Runtime::iterations() const {
  const std::lock_guard lock(mutex_);
  return iterations_;
}

std::vector<MemorySample> Runtime::memory_timeline() const {
  const std::lock_guard lock(mutex_);
  return last_samples_;
}

EngineCounters Runtime::counters() const {
  const std::lock_guard lock(mutex_);
  return engine_.counters();
}

device::MemoryUsage Runtime::memory_usage() const {
  const std::lock_guard lock(mutex_);
  return options_.engine.device->usage();
}

int64_t Runtime::deviation_count() const {
  const std::lock_guard lock(mutex_);
  return follower_.deviation_count();
}

int64_t Runtime::unmovable_bytes() const {
  const std::lock_guard lock(mutex_);
  return engine_.unmovable_bytes();
}

int64_t Runtime::held_for_good_bytes() const {
  const std::lock_guard lock(mutex_);
  return engine_.held_for_good_bytes();
}

int64_t Runtime::bytes_away() const {
  const std::lock_guard lock(mutex_);
  return engine_.bytes_away();
}

Status Runtime::planning_status() const {
  const std::lock_guard lock(mutex_);
  return planning_status_;
}

bool Runtime::is_following_plan() const {
  const std::lock_guard lock(mutex_);
  return is_planned_ && follower_.is_following();
}

}  // namespace teraio::engine
