#include "engine/runtime.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "engine/engine.h"
#include "engine/iteration_detector.h"
#include "engine/live_tensor.h"
#include "engine/op_time_history.h"
#include "engine/pattern_tracker.h"
#include "engine/recorder.h"
#include "engine/stream_uses.h"
#include "engine/thread_tag.h"
#include "engine/timeline.h"

namespace teraio::engine {
namespace {

// A program that runs this many ops without a step is not training; it is not recorded for ever.
constexpr int64_t kLongestIterationOps = 2'000'000;

// How often a thread that waits for the device looks after transfers. After so many looks, a second
// or more, the device may have failed, which only a wait for it tells.
constexpr auto kTransferLookInterval = std::chrono::microseconds(200);
constexpr int kTransferLooksMax = 5'000;

Status status_of(const Status& status) { return status; }
template <typename T>
Status status_of(const Result<T>& result) {
  return result.status();
}

// Without a replayer nothing can be made again.
Result<plan::Plan> checked_for_replays(Result<plan::Plan> plan, const Replayer* replayer) {
  if (!plan.ok() || !plan::has_replays(*plan) || replayer != nullptr) return plan;
  return Status(ErrorCode::kInvalidArgument,
                "the plan discards or recomputes tensors, and this run does not: expected a plan "
                "that was made with --recompute off");
}

PatternTrackerOptions tracker_options(const RuntimeOptions& options) {
  PatternTrackerOptions tracker;
  if (options.make_plan)
    tracker.make_plan = [make_plan = options.make_plan,
                         replayer = options.replayer](const Profile& profile) {
      return checked_for_replays(make_plan(profile), replayer);
    };
  tracker.plans_in_background = options.plans_in_background;
  tracker.machine_change = options.machine_change;
  return tracker;
}

}  // namespace

Runtime::Runtime(RuntimeOptions options)
    : replay_mutex_(options.wait_for_lock),
      mutex_(options.wait_for_lock),
      options_(std::move(options)),
      engine_(std::make_unique<Engine>(options_.engine)),
      patterns_(std::make_unique<PatternTracker>(*engine_, tracker_options(options_))),
      recorder_(std::make_unique<Recorder>(options_.engine.smallest_tensor_bytes)),
      detector_(std::make_unique<IterationDetector>()),
      op_times_(std::make_unique<OpTimeHistory>(options_.op_timer)),
      origins_(std::make_unique<OriginMemory>()),
      stream_uses_(std::make_unique<StreamUses>(*options_.engine.device)),
      log_(options_.engine) {
  start_iteration(/*is_complete=*/false);
}

// Tensors that were dropped while another stream used them are freed.
Runtime::~Runtime() {
  const std::lock_guard lock(mutex_);
  while (wait_for_stream()) continue;
}

// False when no stream has anything to be waited for.
bool Runtime::wait_for_stream() {
  if (stream_uses_->empty()) return false;
  const device::PauseOfOps pause(options_.op_timer);
  unpin_all(stream_uses_->wait_for_oldest());
  return true;
}

// Calls again when the call needed a replay, which it runs, when memory was short and another
// stream or a pin has let go of some, or when an interrupt has ended a wait of the call and does
// not end the call itself. Nearly every call succeeds at once.
template <typename Call>
auto Runtime::complete(Lock& lock, const Call& call) {
  auto result = call();
  while (!result.ok()) {
    if (Status status = mend(lock, status_of(result)); !status.ok()) {
      result = std::move(status);
      break;
    }
    result = call();
  }
  return result;
}

// Removes the reason for which a call has failed. Returns the failure that ends the call instead.
Status Runtime::mend(Lock& lock, const Status& failure) {
  const auto unlocked = [&](const auto& call) {
    const device::PauseOfOps pause(options_.op_timer);
    lock.unlock();
    const bool result = call();
    lock.lock();
    return result;
  };
  if (failure.code() == ErrorCode::kReplayDue) return run_due_replay(lock);
  if (failure.code() == ErrorCode::kOutOfMemory && wait_for_stream()) return {};
  if (failure.code() == ErrorCode::kOutOfMemory && options_.wait_for_unpin)
    return unlocked(options_.wait_for_unpin) ? Status() : failure;
  if (failure.code() != ErrorCode::kInterrupted || engine_->has_ended_waits()) return failure;
  // Handlers of signals use tensors, and other threads go on.
  return unlocked([&] { return options_.engine.interrupt->ends_call(); }) ? failure : Status();
}

Result<Allocation> Runtime::allocate(int64_t size_bytes) {
  std::unique_lock lock(mutex_);
  const Result<LiveTensor*> tensor = complete(lock, [&] { return engine_->allocate(size_bytes); });
  if (!tensor.ok()) return tensor.status();
  const Allocation allocation = {*tensor, (*tensor)->memory};
  if (!is_active_ || is_replaying_here()) return allocation;
  (*tensor)->birth.thread = thread_tag();
  births_.push_back(*tensor);
  born_bytes_ += size_bytes;
  born_peak_bytes_ = std::max(born_peak_bytes_, born_bytes_);
  return allocation;
}

void Runtime::release(LiveTensor* tensor) {
  const std::lock_guard lock(mutex_);
  release_locked(tensor);
}

void Runtime::release_locked(LiveTensor* tensor) {
  if (std::exchange(tensor->uses.is_address_known, false)) engine_->unpin(tensor);
  if (tensor->uses.pin_count == 0) return free_tensor(tensor);
  tensor->life = Life::kDroppedInUse;
  engine_->forget_owner(*tensor);
}

void Runtime::set_owner(LiveTensor* tensor, void* owner) {
  tensor->owner.store(owner, std::memory_order_release);
}

void Runtime::note_brought(LiveTensor* tensor) {
  const std::lock_guard lock(mutex_);
  engine_->note_brought(*tensor);
}

void Runtime::free_dropped(std::span<const Use> uses) {
  for (const Use& use : uses)
    if (use.tensor->uses.pin_count == 0 && use.tensor->life == Life::kDroppedInUse)
      free_tensor(use.tensor);
}

void Runtime::free_tensor(LiveTensor* tensor) {
  if (is_active_) {
    forget_birth(*tensor);
    recorder_->record_death(*tensor);
  }
  engine_->release(tensor);
}

void Runtime::forget_birth(const LiveTensor& tensor) {
  const auto found = std::find(births_.rbegin(), births_.rend(), &tensor);
  if (found == births_.rend()) return;
  born_bytes_ -= tensor.size_bytes;
  births_.erase(std::next(found).base());
}

Result<OpRequests> Runtime::begin_op(OpFrame& frame, const OpSignature& signature) {
  std::unique_lock lock(mutex_);
  frame.begun.is_begun = false;
  if (!is_active_) return OpRequests();
  if (!stream_uses_->empty()) unpin_all(stream_uses_->take_passed());
  if (detector_->begins_new_update(frame.uses)) end_segment();
  OpRequests requests;
  frame.begun.input_count = frame.uses.size();
  frame.begun.position = patterns_->advance(signature, frame.uses);
  frame.begun.epoch = engine_->epoch();
  requests.new_difference = patterns_->new_difference();
  look_up_origin(frame, signature, requests);
  Status status = complete(lock, [&] { return engine_->begin_op(position_of(frame), frame.uses); });
  if (!status.ok()) {
    free_dropped(frame.uses);
    if (!open_temporaries_.empty()) drop_open_temporaries(lock);
    return status;
  }
  frame.begun.is_begun = true;
  frame.begun.is_replay_planned = is_replay_planned(position_of(frame));
  requests.is_replay_planned = frame.begun.is_replay_planned;
  requests.is_replay_wanted =
      requests.is_replay_planned || (is_recording_ && options_.replayer != nullptr);
  begin_op_in_timeline(frame);
  if (!open_temporaries_.empty()) drop_open_temporaries(lock);
  return requests;
}

void Runtime::look_up_origin(OpFrame& frame, const OpSignature& signature, OpRequests& requests) {
  frame.begun.origin_key.reset();
  if (!is_recording_) return;
  requests.is_origin_wanted = true;
  frame.begun.origin_key = origins_->key_of_next(signature);
  if (const OpOrigin* known = origins_->find(*frame.begun.origin_key))
    requests.known_origin = *known;
}

int64_t Runtime::take_workspace_bytes() {
  const int64_t workspace_bytes = born_peak_bytes_ - born_bytes_;
  born_bytes_ = 0;
  born_peak_bytes_ = 0;
  return workspace_bytes;
}

void Runtime::end_op(OpFrame& frame, std::string_view name, const OpSignature& signature,
                     const OpFacts& facts) {
  std::unique_lock lock(mutex_);
  const BegunOp& begun = frame.begun;
  if (!std::exchange(frame.begun.is_begun, false)) return;
  if (timeline_ != nullptr) end_op_in_timeline(frame, name, facts);
  const bool is_replayable = this->is_replayable(facts.replay);
  const trace::OpIndex position = position_of(frame);
  engine_->end_op(position, frame.uses, begun.input_count);
  const device::Event due = note_enqueued(position);
  if (position != kLost && births_.size() > frame.uses.size() - begun.input_count)
    engine_->bind_births(position, frame.uses, births_of_this_thread());
  if (is_replayable && begun.is_replay_planned && is_active_) engine_->add_recipe(facts.replay);
  if (is_active_) note_op(frame, name, signature, facts, is_replayable);
  free_dropped(std::span(frame.uses).first(begun.input_count));
  if (is_active_ && options_.discard_after_every_op) engine_->discard_everything();
  if (is_active_ && options_.evict_after_every_op) {
    const Status status = engine_->evict_everything();
    if (!status.ok() && status.code() != ErrorCode::kInterrupted)
      spdlog::error("teraio: {}", status.message());
  }
  lock.unlock();
  if (due.id != 0) wait_for_device(due);
}

// Transfers end meanwhile, and others wait for their memory.
void Runtime::wait_for_device(device::Event due) {
  device::Device& device = *options_.engine.device;
  for (int looks = 0; looks < kTransferLooksMax && !device.has_passed(due); ++looks) {
    std::this_thread::sleep_for(kTransferLookInterval);
    if (!engine_->has_arrivals()) continue;
    const std::lock_guard lock(mutex_);
    engine_->take_arrivals();
  }
  (void)device.wait(due);
}

// What the program is to wait for before it enqueues more.
device::Event Runtime::note_enqueued(trace::OpIndex position) {
  const Schedule& schedule = engine_->schedule();
  const bool is_planned = position != kLost && schedule.is_planned() && patterns_->is_following();
  if (!is_planned || schedule.plan()->migrations.empty()) return {};
  if (options_.engine.device->is_host_addressable()) return {};  // its compute has happened
  return engine_->note_enqueued(
      schedule.profile().trace.ops[static_cast<size_t>(position)].duration_ns);
}

// Threads that run ops at once share the iteration, and each of them may end it.
trace::OpIndex Runtime::position_of(const OpFrame& frame) const {
  return frame.begun.epoch == engine_->epoch() ? frame.begun.position : kLost;
}

bool Runtime::is_replay_planned(trace::OpIndex position) const {
  if (options_.replayer == nullptr) return false;
  return options_.discard_after_every_op || engine_->is_replayed(position);
}

// A tensor that the op has made besides its results, which a graph may have saved, would be lost.
bool Runtime::is_replayable(const OpReplay& replay) {
  if (replay.op == nullptr) return false;
  const std::span<LiveTensor* const> births = births_of_this_thread();
  return std::all_of(births.begin(), births.end(), [&](const LiveTensor* tensor) {
    return tensor->size_bytes < options_.engine.smallest_tensor_bytes ||
           std::find(replay.results.begin(), replay.results.end(), tensor) != replay.results.end();
  });
}

std::span<LiveTensor* const> Runtime::births_of_this_thread() {
  if (births_.empty()) return {};
  return put_births_of_this_thread_first();
}

// Other threads may be inside their ops, so their births stay in the list.
std::span<LiveTensor* const> Runtime::put_births_of_this_thread_first() {
  const auto is_mine = [tag = thread_tag()](LiveTensor* t) { return t->birth.thread == tag; };
  const auto others = std::find_if_not(births_.begin(), births_.end(), is_mine);
  if (others == births_.end()) return births_;
  return {births_.begin(), std::stable_partition(others, births_.end(), is_mine)};
}

// How long the op that ends took; 0 when nobody wants to know.
int64_t Runtime::note_time() {
  const bool is_sample_due = log_.is_sample_due();
  if (!is_sample_due && !op_times_->is_timed()) return 0;
  const int64_t now_ns = options_.engine.clock->now_ns();
  if (is_sample_due) log_.add_sample(now_ns);
  return op_times_->is_timed() ? op_times_->end_op(now_ns, engine_->counters().stall_ns()) : 0;
}

void Runtime::note_op(const OpFrame& frame, std::string_view name, const OpSignature& signature,
                      const OpFacts& facts, bool is_replayable) {
  const std::span<LiveTensor* const> births = births_of_this_thread();
  engine_->note_used(births);
  if (facts.is_complete)
    for (LiveTensor* newborn : births)
      newborn->birth.is_seen_as_input.store(true, std::memory_order_relaxed);
  const int64_t workspace_bytes = take_workspace_bytes();
  const int64_t duration_ns = note_time();
  if (frame.begun.origin_key && facts.origin) origins_->set(*frame.begun.origin_key, *facts.origin);
  if (is_recording_) {
    OpRecord record;
    record.name = name;
    record.signature = signature;
    record.uses = frame.uses;
    record.input_count = frame.begun.input_count;
    record.nested_uses = frame.nested_uses;
    record.births = births;
    record.duration_ns = duration_ns;
    record.workspace_bytes = workspace_bytes;
    record.is_replayable = is_replayable;
    record.replay_inputs = facts.replay.inputs;
    record.origin = facts.origin.value_or(OpOrigin());
    recorder_->record_op(record);
  }
  births_.erase(births_.begin(), births_.begin() + static_cast<ptrdiff_t>(births.size()));
  detector_->add_op(signature, !frame.uses.empty());
  if (detector_->op_count() >= kLongestIterationOps) start_iteration(/*is_complete=*/false);
}

Status Runtime::pin(LiveTensor* tensor, bool is_write) {
  std::unique_lock lock(mutex_);
  TERAIO_RETURN_IF_ERROR(complete(lock, [&] { return engine_->pin(tensor); }));
  if (!is_write) return {};
  Status status = complete(lock, [&] { return engine_->mark_written(tensor); });
  if (status.ok())
    ++tensor->uses.write_pin_count;
  else
    engine_->unpin(tensor);
  return status;
}

// Pins a tensor that cannot end meanwhile, whatever the program drops.
Status Runtime::pin_held(Lock& lock, LiveTensor* tensor) {
  ++tensor->uses.pin_count;
  Status status = complete(lock, [&] { return engine_->pin(tensor); });
  engine_->unpin(tensor);
  return status;
}

void Runtime::unpin(LiveTensor* tensor, bool is_write) {
  const std::lock_guard lock(mutex_);
  if (is_write) {
    --tensor->uses.write_pin_count;
    ++tensor->replay.version;
  }
  unpin_all(std::span(&tensor, 1));
}

void Runtime::unpin_all(std::span<LiveTensor* const> tensors) {
  for (LiveTensor* tensor : tensors) {
    engine_->unpin(tensor);
    const Use use = {tensor, false};
    free_dropped(std::span(&use, 1));
  }
}

Status Runtime::order_stream(void* stream, std::span<const Use> uses) {
  const std::lock_guard lock(mutex_);
  return is_active_ ? engine_->order_stream(stream, uses) : Status();
}

void Runtime::record_stream(void* stream, std::span<const Use> uses) {
  std::unique_lock lock(mutex_);
  if (!is_active_) return;
  std::vector<LiveTensor*> pinned;
  for (const Use& use : uses) {
    if (!engine_->pin(use.tensor).ok()) continue;  // the run has failed: nothing moves any more
    if (use.is_write && !complete(lock, [&] { return engine_->mark_written(use.tensor); }).ok())
      engine_->note_written(use.tensor);
    pinned.push_back(use.tensor);
  }
  stream_uses_->record(stream, std::move(pinned));
}

Status Runtime::pin_permanently(LiveTensor* tensor) {
  std::unique_lock lock(mutex_);
  if (tensor->uses.is_address_known) return {};
  TERAIO_RETURN_IF_ERROR(complete(lock, [&] { return engine_->pin(tensor); }));
  Status status = complete(lock, [&] { return engine_->mark_written(tensor); });
  if (!status.ok() || std::exchange(tensor->uses.is_address_known, true)) engine_->unpin(tensor);
  return status;
}

void Runtime::record_use(LiveTensor* tensor, void* stream) {
  const std::lock_guard lock(mutex_);
  options_.engine.device->record_use(tensor->memory, stream);
}

// A free range of some pages of the device contains a whole one.
Status Runtime::return_memory(int64_t size_bytes) {
  for (int64_t free_bytes = size_bytes;; free_bytes *= 2) {
    const Result<Allocation> room = allocate(free_bytes);
    if (!room.ok()) return room.status();
    const std::lock_guard lock(mutex_);
    release_locked(room->tensor);
    if (options_.engine.device->return_free_bytes(size_bytes) >= size_bytes) return {};
  }
}

void Runtime::add_outside_bytes(int64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  outside_bytes_ += size_bytes;
  options_.engine.device->add_outside_bytes(size_bytes);
}

std::vector<std::byte*> Runtime::addresses(std::span<LiveTensor* const> tensors) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::byte*> addresses;
  for (const LiveTensor* tensor : tensors)
    addresses.push_back(tensor == nullptr ? nullptr : tensor->memory);
  return addresses;
}

std::vector<LiveTensor*> Runtime::births() {
  const std::lock_guard lock(mutex_);
  const std::span<LiveTensor* const> mine = births_of_this_thread();
  return {mine.begin(), mine.end()};
}

void Runtime::set_place_of_difference(size_t new_difference, std::string op, std::string location) {
  const std::lock_guard lock(mutex_);
  patterns_->set_place_of_difference(new_difference, std::move(op), std::move(location));
}

void Runtime::while_nothing_moves(const std::function<void()>& call) {
  const std::lock_guard lock(mutex_);
  call();
}

void Runtime::describe(LiveTensor* tensor, trace::TensorKind kind, std::string name) {
  const std::lock_guard lock(mutex_);
  if (is_active_) recorder_->describe(*tensor, kind, std::move(name));
}

void Runtime::start_iteration(bool is_complete) {
  engine_->start_iteration();
  patterns_->start_iteration();
  detector_->start_iteration(is_complete);
  if (is_recording_) recorder_->start(engine_->next_id());
  if (is_recording_) origins_->start_iteration();
  timeline_ = timeline_of_step();
  const int64_t now_ns = options_.engine.clock->now_ns();
  log_.start_iteration(now_ns, engine_->counters());
  op_times_->start_iteration(now_ns, engine_->counters().stall_ns(), patterns_->wants_times());
}

void Runtime::begin_step() {
  const std::lock_guard lock(mutex_);
  detector_->expect_steps();
}

void Runtime::end_step() {
  const std::lock_guard lock(mutex_);
  if (is_active_) end_segment();
}

int64_t Runtime::begin_own_work() const { return options_.engine.clock->now_ns(); }

int64_t Runtime::end_own_work(int64_t start_ns) {
  const std::lock_guard lock(mutex_);
  const int64_t duration_ns = options_.engine.clock->now_ns() - start_ns;
  log_.leave_out(duration_ns);
  op_times_->leave_out(duration_ns);
  return duration_ns;
}

void Runtime::end_segment() {
  if (detector_->end_segment()) end_iteration();
}

void Runtime::end_iteration() {
  const auto mode = !patterns_->is_planned()    ? IterationRecord::Mode::kOnDemand
                    : patterns_->is_exact_end() ? IterationRecord::Mode::kPlanned
                                                : IterationRecord::Mode::kDeviated;
  const int64_t planned_op_count = patterns_->planned_op_count();
  const int64_t end_ns = options_.engine.clock->now_ns();
  log_.end_iteration(end_ns, engine_->counters(), detector_->op_count(), planned_op_count, mode);
  if (timeline_ != nullptr) timeline_->end_step(end_ns, mode);
  planning_counters_.ops += detector_->op_count();
  planning_counters_.planned_ops += planned_op_count;
  const bool is_repeated = detector_->is_repeated();
  op_times_->end_iteration(is_repeated, is_repeated || patterns_->is_known_pattern());
  PatternTracker::IterationEnd end;
  if (is_recording_) end.record = [this] { return recorded_profile(); };
  end.apply_times = [this](Profile& profile) { op_times_->apply_to(profile); };
  end.op_count = detector_->op_count();
  patterns_->end_iteration(end);
  log_.set_pattern(patterns_->last_pattern());
  // What is planned needs no period, which would begin with learning once more.
  const bool is_settled = patterns_->has_plan() && !detector_->has_period();
  if (!patterns_->was_as_expected() && !is_repeated && !is_settled) detector_->find_period();
  is_recording_ = patterns_->wants_recording();
  start_iteration(/*is_complete=*/true);
}

Profile Runtime::recorded_profile() {
  Profile profile = recorder_->finish(engine_->live(), [this](const LiveTensor& tensor) {
    return engine_->can_leave(tensor) || tensor.residency != Residency::kResident ||
           tensor.is_being_moved();
  });
  // What is outside is held by the device's neighbour where it has one.
  profile.untouched_bytes +=
      std::max(outside_bytes_, options_.engine.device->usage().neighbour_bytes);
  return profile;
}

Status Runtime::stop() {
  std::unique_lock lock(mutex_);
  patterns_->stop();
  while (wait_for_stream()) continue;
  is_active_ = false;
  births_.clear();
  Status status = complete(lock, [&] { return engine_->restore_all(replay_failure_); });
  if (!status.ok()) {
    if (status.code() == ErrorCode::kInterrupted) engine_->end_waits();
    return status;
  }
  leave_stores(engine_->leave_stores());
  return {};
}

void Runtime::discard() {
  engine_->end_waits();  // another thread may wait with the lock held
  const std::lock_guard lock(mutex_);
  patterns_->stop();
  is_active_ = false;
  births_.clear();
  leave_stores(engine_->discard_all());
}

void Runtime::leave_stores(bool are_free) {
  if (!are_free) return;
  uses_stores_ = false;
  options_.engine.stores = {};
}

bool Runtime::uses_stores() const {
  const std::lock_guard lock(mutex_);
  return uses_stores_;
}

}  // namespace teraio::engine
