#include "runtime/runtime.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace teraio::runtime {
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
Result<plan::Plan> checked_for_replays(Result<plan::Plan> plan, const engine::Replayer* replayer) {
  if (!plan.ok() || !plan::has_replays(*plan) || replayer != nullptr) return plan;
  return Status(ErrorCode::kInvalidArgument,
                "the plan discards or recomputes tensors, and this run does not: expected a plan "
                "that was made with --recompute off");
}

learn::PatternTrackerOptions tracker_options(const RuntimeOptions& options) {
  learn::PatternTrackerOptions tracker;
  if (options.make_plan)
    tracker.make_plan = [make_plan = options.make_plan,
                         replayer = options.replayer](const iteration::Profile& profile) {
      return checked_for_replays(make_plan(profile), replayer);
    };
  tracker.plans_in_background = options.plans_in_background;
  tracker.improve_plan = options.improve_plan;
  tracker.machine_change = options.machine_change;
  tracker.predicted_step_ns = options.predicted_step_ns;
  tracker.note_wrong_prediction = options.note_wrong_prediction;
  tracker.records_all = options.records_all;
  tracker.library_bytes_max = options.library_bytes_max;
  return tracker;
}

}  // namespace

Runtime::Runtime(RuntimeOptions options)
    : mutex_(options.wait_for_lock),
      options_(std::move(options)),
      engine_(engine_options()),
      patterns_(engine_.plan(), tracker_options(options_)),
      recorder_(options_.engine.smallest_tensor_bytes),
      stream_uses_(*options_.engine.device),
      observer_(options_.engine, options_.op_timer, engine_),
      replays_({.mutex = mutex_,
                .engine = engine_,
                .observer = observer_,
                .clock = *options_.engine.clock,
                .replayer = options_.replayer,
                .pin = [this](auto& lock, auto* tensor) { return pin_held(lock, tensor); },
                .unpin = [this](auto tensors) { unpin_all(tensors); }},
               options_.wait_for_lock) {
  start_iteration(/*is_complete=*/false);
}

engine::EngineOptions Runtime::engine_options() {
  engine::EngineOptions options = options_.engine;
  if (options_.least_budget_bytes)
    options.least_budget_bytes = [this] {
      return patterns_.largest_of_profiles(options_.least_budget_bytes);
    };
  return options;
}

// Tensors that were dropped while another stream used them are freed.
Runtime::~Runtime() {
  const std::lock_guard lock(mutex_);
  while (wait_for_stream()) continue;
}

// False when no stream has anything to be waited for.
bool Runtime::wait_for_stream() {
  if (stream_uses_.empty()) return false;
  const device::PauseOfOps pause(options_.op_timer);
  unpin_all(stream_uses_.wait_for_oldest());
  return true;
}

// Calls again when the call needed a replay, which it runs, when memory was short and another
// stream or a pin has let go of some, or when an interrupt has ended a wait of the call and does
// not end the call itself. Nearly every call succeeds at once.
template <typename Call>
auto Runtime::complete(RuntimeLock& lock, const Call& call) {
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
Status Runtime::mend(RuntimeLock& lock, const Status& failure) {
  const auto unlocked = [&](const auto& call) {
    const device::PauseOfOps pause(options_.op_timer);
    lock.unlock();
    const bool result = call();
    lock.lock();
    return result;
  };
  if (failure.code() == ErrorCode::kReplayDue) return replays_.run_due(lock);
  if (failure.code() == ErrorCode::kOutOfMemory && wait_for_stream()) return {};
  if (failure.code() == ErrorCode::kOutOfMemory && options_.wait_for_unpin)
    return unlocked(options_.wait_for_unpin) ? Status() : failure;
  if (failure.code() != ErrorCode::kInterrupted || engine_.mover().has_ended_waits())
    return failure;
  // Handlers of signals use tensors, and other threads go on.
  return unlocked([&] { return options_.engine.interrupt->ends_call(); }) ? failure : Status();
}

Result<Allocation> Runtime::allocate(int64_t size_bytes) {
  std::unique_lock lock(mutex_);
  const Result<engine::LiveTensor*> tensor =
      complete(lock, [&] { return engine_.allocate(size_bytes); });
  if (!tensor.ok()) return tensor.status();
  const Allocation allocation = {*tensor, (*tensor)->memory};
  if (is_active_ && !engine::ReplayMark::is_set()) {
    births_.add(**tensor);
    held_.change(size_bytes);
  }
  return allocation;
}

void Runtime::release(engine::LiveTensor* tensor) {
  const std::lock_guard lock(mutex_);
  release_locked(tensor);
}

void Runtime::release_locked(engine::LiveTensor* tensor) {
  if (tensor->birth.thread != 0) held_.change(-tensor->size_bytes);  // allocate() has counted it
  if (std::exchange(tensor->uses.is_address_known, false)) {
    permanently_pinned_bytes_ -= tensor->size_bytes;
    engine_.unpin(tensor);
  }
  if (tensor->uses.pin_count == 0) return free_tensor(tensor);
  tensor->life = engine::Life::kDroppedInUse;
  engine_.forget_owner(*tensor);
}

void Runtime::note_brought(engine::LiveTensor* tensor) {
  const std::lock_guard lock(mutex_);
  engine_.mover().note_brought(*tensor);
}

void Runtime::free_dropped(std::span<const engine::Use> uses) {
  for (const engine::Use& use : uses)
    if (use.tensor->uses.pin_count == 0 && use.tensor->life == engine::Life::kDroppedInUse)
      free_tensor(use.tensor);
}

void Runtime::free_tensor(engine::LiveTensor* tensor) {
  if (is_active_) {
    births_.remove(*tensor);
    recorder_.record_death(*tensor);
  }
  engine_.release(tensor);
}

Result<engine::OpRequests> Runtime::begin_op(engine::OpFrame& frame,
                                             const iteration::OpSignature& signature) {
  std::unique_lock lock(mutex_);
  frame.begun.is_begun = false;
  if (!is_active_) return engine::OpRequests();
  if (!stream_uses_.empty()) unpin_all(stream_uses_.take_passed());
  if (detector_.begins_new_update(frame.uses)) finish_step();
  frame.begun.input_count = frame.uses.size();
  frame.begun.position = patterns_.advance(signature, frame.uses);
  frame.begun.epoch = engine_.plan().epoch();
  frame.begun.new_difference = patterns_.new_difference();
  frame.begun.origin_key.reset();
  engine::OpRequests requests;
  requests.is_place_wanted = frame.begun.new_difference != 0;
  if (is_recording_) observer_.ask_for_origin(frame, signature, requests);
  Status status = complete(lock, [&] { return engine_.begin_op(position_of(frame), frame.uses); });
  if (!status.ok()) {
    free_dropped(frame.uses);
    replays_.drop_temporaries(lock);
    return status;
  }
  frame.begun.is_begun = true;
  frame.begun.is_replay_planned = is_replay_planned(position_of(frame));
  requests.is_replay_planned = frame.begun.is_replay_planned;
  requests.is_replay_wanted =
      requests.is_replay_planned || (is_recording_ && options_.replayer != nullptr);
  observer_.start(frame);
  replays_.drop_temporaries(lock);
  return requests;
}

void Runtime::end_op(engine::OpFrame& frame, std::string_view name,
                     const iteration::OpSignature& signature, const engine::OpFacts& facts) {
  std::unique_lock lock(mutex_);
  const engine::BegunOp& begun = frame.begun;
  if (!std::exchange(frame.begun.is_begun, false)) return;
  const trace::OpIndex position = position_of(frame);
  observer_.end(frame, name, facts, position);
  note_differences(frame, name, facts);
  const bool is_replayable = this->is_replayable(facts.replay);
  const std::span<engine::LiveTensor* const> births = births_.of_this_thread();
  engine_.end_op(position, frame.uses, begun.input_count, births);
  const device::Event due = note_enqueued(position);
  if (is_replayable && begun.is_replay_planned && is_active_)
    engine_.discards().add_recipe(facts.replay);
  if (is_active_) note_op(frame, name, signature, facts, births, is_replayable);
  free_dropped(std::span(frame.uses).first(begun.input_count));
  if (is_active_ && options_.discard_after_every_op) engine_.discards().discard_everything();
  if (is_active_ && options_.evict_after_every_op) {
    const Status status = engine_.evict_everything();
    if (!status.ok() && status.code() != ErrorCode::kInterrupted)
      spdlog::error("teraio: {}", status.message());
  }
  lock.unlock();
  if (due.id != 0) wait_for_device(due);
}

void Runtime::note_differences(const engine::OpFrame& frame, std::string_view name,
                               const engine::OpFacts& facts) {
  if (frame.begun.new_difference != 0)
    patterns_.set_place_of_difference(frame.begun.new_difference, std::string(name), facts.place);
  if (!facts.has_differed) return;
  spdlog::warn(
      "teraio: op {} is not deterministic: running it again produced different bytes. Training "
      "keeps the original result, and later plans offload its results instead of recomputing them",
      name);
  ++engine_.discards().counters().banned;
  patterns_.ban_replays(position_of(frame));
}

// Transfers end meanwhile, and others wait for their memory.
void Runtime::wait_for_device(device::Event due) {
  device::Device& device = *options_.engine.device;
  for (int looks = 0; looks < kTransferLooksMax && !device.has_passed(due); ++looks) {
    std::this_thread::sleep_for(kTransferLookInterval);
    if (!engine_.mover().has_arrivals()) continue;
    const std::lock_guard lock(mutex_);
    engine_.take_arrivals();
  }
  (void)device.wait(due);
}

// What the program is to wait for before it enqueues more.
device::Event Runtime::note_enqueued(trace::OpIndex position) {
  const iteration::Schedule& schedule = engine_.plan().schedule();
  const bool is_planned = position != iteration::kLost && patterns_.is_following_plan();
  if (!is_planned || schedule.plan()->migrations.empty()) return {};
  if (options_.engine.device->is_host_addressable()) return {};  // its compute has happened
  return engine_.plan().note_enqueued(
      schedule.profile().trace.ops[static_cast<size_t>(position)].duration_ns);
}

// Threads that run ops at once share the iteration, and each of them may end it.
trace::OpIndex Runtime::position_of(const engine::OpFrame& frame) const {
  return frame.begun.epoch == engine_.plan().epoch() ? frame.begun.position : iteration::kLost;
}

bool Runtime::is_replay_planned(trace::OpIndex position) const {
  if (options_.replayer == nullptr) return false;
  return options_.discard_after_every_op || engine_.plan().is_replayed(position);
}

// A tensor that the op has made besides its results, which a graph may have saved, would be lost.
bool Runtime::is_replayable(const engine::OpReplay& replay) {
  if (replay.op == nullptr) return false;
  const std::span<engine::LiveTensor* const> births = births_.of_this_thread();
  return std::all_of(births.begin(), births.end(), [&](const engine::LiveTensor* tensor) {
    return tensor->size_bytes < options_.engine.smallest_tensor_bytes ||
           std::find(replay.results.begin(), replay.results.end(), tensor) != replay.results.end();
  });
}

void Runtime::note_op(const engine::OpFrame& frame, std::string_view name,
                      const iteration::OpSignature& signature, const engine::OpFacts& facts,
                      std::span<engine::LiveTensor* const> births, bool is_replayable) {
  if (facts.is_complete)
    for (engine::LiveTensor* birth : births) note_complete(*birth);
  const int64_t workspace_bytes = births_.take_workspace_bytes();
  const int64_t duration_ns = observer_.note_end(frame, facts);
  if (is_recording_) {
    learn::OpRecord record;
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
    record.origin = facts.origin.value_or(iteration::OpOrigin());
    record.flops = facts.flops;
    recorder_.record_op(record);
  }
  births_.remove_first(births.size());
  detector_.add_op(signature, !frame.uses.empty());
  if (detector_.op_count() >= kLongestIterationOps) start_iteration(/*is_complete=*/false);
}

Status Runtime::pin(engine::LiveTensor* tensor, bool is_write) {
  std::unique_lock lock(mutex_);
  TERAIO_RETURN_IF_ERROR(complete(lock, [&] { return engine_.pin(tensor); }));
  if (!is_write) return {};
  Status status = complete(lock, [&] { return engine_.mark_written(tensor); });
  if (status.ok())
    ++tensor->uses.write_pin_count;
  else
    engine_.unpin(tensor);
  return status;
}

// Pins a tensor that cannot end meanwhile, whatever the program drops.
Status Runtime::pin_held(RuntimeLock& lock, engine::LiveTensor* tensor) {
  ++tensor->uses.pin_count;
  Status status = complete(lock, [&] { return engine_.pin(tensor); });
  engine_.unpin(tensor);
  return status;
}

void Runtime::unpin(engine::LiveTensor* tensor, bool is_write) {
  const std::lock_guard lock(mutex_);
  if (is_write) {
    --tensor->uses.write_pin_count;
    ++tensor->replay.version;
  }
  unpin_all(std::span(&tensor, 1));
}

void Runtime::unpin_all(std::span<engine::LiveTensor* const> tensors) {
  for (engine::LiveTensor* tensor : tensors) {
    engine_.unpin(tensor);
    const engine::Use use = {tensor, false};
    free_dropped(std::span(&use, 1));
  }
}

Status Runtime::order_stream(void* stream, std::span<const engine::Use> uses) {
  const std::lock_guard lock(mutex_);
  return is_active_ ? engine_.order_stream(stream, uses) : Status();
}

void Runtime::record_stream(void* stream, std::span<const engine::Use> uses, bool is_use_open) {
  std::unique_lock lock(mutex_);
  if (is_use_open)
    for (const engine::Use& use : uses)
      options_.engine.device->record_use(use.tensor->memory, stream);
  if (!is_active_) return;
  std::vector<engine::LiveTensor*> pinned;
  for (const engine::Use& use : uses) {
    if (!engine_.pin(use.tensor).ok()) continue;  // the run has failed: nothing moves any more
    if (use.is_write && !complete(lock, [&] { return engine_.mark_written(use.tensor); }).ok())
      engine_.mover().mark_written(*use.tensor);
    pinned.push_back(use.tensor);
  }
  stream_uses_.record(stream, std::move(pinned));
}

Status Runtime::pin_permanently(engine::LiveTensor* tensor) {
  std::unique_lock lock(mutex_);
  if (tensor->uses.is_address_known) return {};
  TERAIO_RETURN_IF_ERROR(complete(lock, [&] { return engine_.pin(tensor); }));
  Status status = complete(lock, [&] { return engine_.mark_written(tensor); });
  if (!status.ok() || std::exchange(tensor->uses.is_address_known, true))
    engine_.unpin(tensor);
  else
    permanently_pinned_bytes_ += tensor->size_bytes;
  return status;
}

// A free range of some pages of the device contains a whole one.
Status Runtime::return_memory(int64_t size_bytes) {
  for (int64_t free_bytes = size_bytes;; free_bytes *= 2) {
    std::unique_lock lock(mutex_);
    const Result<engine::LiveTensor*> room =
        complete(lock, [&] { return engine_.allocate(free_bytes); });
    if (!room.ok()) return room.status();
    engine_.release(*room);
    if (options_.engine.device->return_free_bytes(size_bytes) >= size_bytes) return {};
  }
}

void Runtime::add_outside_bytes(int64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  held_.outside_bytes += size_bytes;
  held_.change(size_bytes);
  options_.engine.device->add_outside_bytes(size_bytes);
}

std::vector<engine::LiveTensor*> Runtime::births() {
  const std::lock_guard lock(mutex_);
  const std::span<engine::LiveTensor* const> mine = births_.of_this_thread();
  return {mine.begin(), mine.end()};
}

void Runtime::while_nothing_moves(const std::function<void()>& call) {
  const std::lock_guard lock(mutex_);
  call();
}

void Runtime::describe(engine::LiveTensor* tensor, trace::TensorKind kind, std::string name) {
  const std::lock_guard lock(mutex_);
  if (is_active_) recorder_.describe(*tensor, kind, std::move(name));
}

void Runtime::start_iteration(bool is_complete) {
  engine_.plan().start_iteration();
  patterns_.start_iteration();
  detector_.start_iteration(is_complete);
  if (is_recording_) recorder_.start(engine_.next_id());
  observer_.start_iteration(is_recording_, patterns_.wants_times());
}

void Runtime::begin_step() {
  const std::lock_guard lock(mutex_);
  const bool is_first = detector_.expect_steps();
  const int64_t count = observer_.log().iteration_count();
  if (is_first && count > 0 && !patterns_.has_planned_iteration())
    observer_.join_iterations(std::span(&count, 1));
}

void Runtime::end_step(uint64_t optimizer) {
  const std::lock_guard lock(mutex_);
  if (is_active_) finish_step(optimizer);
}

int64_t Runtime::begin_own_work() const { return options_.engine.clock->now_ns(); }

int64_t Runtime::end_own_work(int64_t start_ns) {
  const std::lock_guard lock(mutex_);
  const int64_t duration_ns = options_.engine.clock->now_ns() - start_ns;
  observer_.leave_out(duration_ns);
  return duration_ns;
}

void Runtime::finish_step(uint64_t optimizer) {
  if (detector_.end_step(optimizer)) end_iteration();
}

void Runtime::end_iteration() {
  const bool is_repeated = detector_.is_repeated();
  observer_.end_iteration({.op_count = detector_.op_count(),
                           .planned_op_count = patterns_.planned_op_count(),
                           .mode = patterns_.mode(),
                           .is_repeated = is_repeated,
                           .is_known = patterns_.is_known_pattern()});
  learn::PatternTracker::IterationEnd end;
  if (is_recording_) end.record = [this] { return recorded_profile(); };
  end.apply_times = [this](iteration::Profile& profile, int64_t first_step) {
    return observer_.apply_times(profile, first_step);
  };
  end.step = observer_.log().iteration_count();
  end.op_count = detector_.op_count();
  end.duration_ns = observer_.log().last_duration_ns();
  patterns_.end_iteration(end);
  observer_.set_pattern(patterns_.last_pattern());
  // What is planned needs no period, which would begin with learning once more.
  const bool is_settled = patterns_.has_planned_iteration() && !detector_.has_period();
  if (!patterns_.was_as_expected() && !is_repeated && !is_settled) detector_.find_period();
  observer_.join_iterations(detector_.take_parts());
  is_recording_ = patterns_.wants_recording();
  start_iteration(/*is_complete=*/true);
}

iteration::Profile Runtime::recorded_profile() {
  iteration::Profile profile =
      recorder_.finish(engine_.live(), [this](const engine::LiveTensor& tensor) {
        return engine_.can_leave(tensor) || tensor.residency != engine::Residency::kResident ||
               tensor.is_being_moved();
      });
  // What is outside is held by the framework's allocator where the device shares its memory.
  profile.untouched_bytes +=
      std::max(held_.outside_bytes, options_.engine.device->usage().framework_bytes);
  return profile;
}

Status Runtime::stop() {
  std::unique_lock lock(mutex_);
  patterns_.stop();
  while (wait_for_stream()) continue;
  is_active_ = false;
  births_.clear();
  Status status = complete(lock, [&] { return engine_.restore_all(replays_.failure()); });
  if (!status.ok()) {
    if (status.code() == ErrorCode::kInterrupted) engine_.mover().end_waits();
    return status;
  }
  leave_stores(engine_.leave_stores());
  return {};
}

void Runtime::discard() {
  engine_.mover().end_waits();  // another thread may wait with the lock held
  const std::lock_guard lock(mutex_);
  patterns_.stop();
  is_active_ = false;
  births_.clear();
  leave_stores(engine_.discard_all());
}

void Runtime::leave_stores(bool are_free) {
  if (!are_free) return;
  uses_stores_ = false;
  options_.engine.stores = {};
}

Status Runtime::replay_all() { return replays_.replay_all(); }

RunFigures Runtime::figures(bool with_unmovable_bytes) const {
  const std::lock_guard lock(mutex_);
  RunFigures figures;
  figures.memory = options_.engine.device->usage();
  figures.counters = engine_.counters();
  figures.planning = {.ops = observer_.op_count(),
                      .planned_ops = observer_.planned_op_count(),
                      .work = patterns_.planning_work()};
  figures.plan = patterns_.plan_facts();
  figures.trace_name = engine_.plan().schedule().profile().trace.name;
  figures.iteration_count = observer_.log().iteration_count();
  figures.deviation_count = patterns_.deviation_count();
  // As in recorded_profile(), what is outside may be a part of what the framework holds.
  figures.natural_peak_bytes =
      held_.peak_bytes + std::max<int64_t>(figures.memory.framework_bytes - held_.outside_bytes, 0);
  figures.outside_bytes = held_.outside_bytes;
  figures.permanently_pinned_bytes = permanently_pinned_bytes_ + held_.outside_bytes;
  figures.offloaded_bytes = engine_.amounts().offloaded_bytes;
  figures.discarded_bytes = engine_.amounts().discarded_bytes;
  figures.unanswered_bytes = engine_.amounts().unanswered_bytes;
  figures.is_following_plan = patterns_.is_following_plan();
  figures.uses_stores = uses_stores_;
  figures.has_transfers = engine_.amounts().has_transfers();
  if (with_unmovable_bytes)
    figures.unmovable_bytes = engine_.unmovable_bytes() + held_.outside_bytes;
  return figures;
}

RunKnowledge Runtime::knowledge() const {
  const std::lock_guard lock(mutex_);
  RunKnowledge knowledge;
  if (!engine_.plan().schedule().is_empty() && patterns_.knows_iteration())
    knowledge.trace = engine_.plan().schedule().profile().trace;
  if (const trace::Trace* last = patterns_.last_trace()) knowledge.last_trace = *last;
  knowledge.plan = engine_.plan().schedule().plan();
  knowledge.planning_status = patterns_.planning_status();
  knowledge.patterns = patterns_.patterns();
  knowledge.differences = patterns_.differences().differences();
  knowledge.memory = observer_.log().samples();
  return knowledge;
}

std::vector<engine::IterationRecord> Runtime::iterations(size_t first) const {
  const std::lock_guard lock(mutex_);
  return observer_.log().iterations(first);
}

}  // namespace teraio::runtime
