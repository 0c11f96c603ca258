// Engine: keeps the tensors of a running program within the device budget, by a plan where there is
// one and on demand where there is none.
//
// The engine decides what moves and when. Its parts do the rest:
//
//   Schedule        the profile, and the migrations that the plan triggers at each op
//   ProfileBinding  which live tensor is which tensor of the profile
//   PrefetchQueue   prefetches that are due and wait for memory
//   Evictor         makes room on the device
//   TensorMover     moves bytes, and changes the Residency of tensors
//   TierCopies      where the tiers keep the bytes
//   ComputePoints   how far the device has come
//
// States change only inside the calls below. The stores' threads leave finished transfers in a
// queue and touch nothing else.
//
// Threads: all calls come under one lock of the owner. A call may wait for I/O with that lock held.
// The stores' threads need neither that lock nor Python's, so the wait ends when the drives answer.
// EngineOptions::interrupt, or end_waits(), ends it before: the call fails with kInterrupted, as if
// it had not been made, except that transfers which it has started go on.
//
// Ownership: the engine owns every LiveTensor from allocate() until release(), and its memory.
//
// The engine discards tensors, but cannot run ops. A call that needs discarded bytes fails with
// kReplayDue and has had no effect except that migrations were issued; take_due_replay() tells what
// is to be run before the call is made again.
//
// Failure: a failed read makes the op that needs it fail, and the bytes stay on the tier. A failed
// write leaves the tensor on the device, and later writes go elsewhere (TierCopies).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "engine/compute_points.h"
#include "engine/engine_counters.h"
#include "engine/engine_options.h"
#include "engine/evictor.h"
#include "engine/live_tensor.h"
#include "engine/prefetch_queue.h"
#include "engine/profile_binding.h"
#include "engine/recipe.h"
#include "engine/replay_check.h"
#include "engine/tensor_mover.h"
#include "engine/tier_copies.h"
#include "engine/use.h"
#include "iteration/schedule.h"

namespace teraio::engine {

// What is to be made again, before the call that failed with kReplayDue is made again.
struct DueReplay {
  std::shared_ptr<Recipe> recipe;
  bool is_planned = false;    // the call succeeds without it, or needs another one
  bool is_temporary = false;  // for replays that follow: the program has dropped the result
};

class Engine {
 public:
  explicit Engine(const EngineOptions& options);
  // Requires that every tensor has been released.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // --- Memory -------------------------------------------------------------------------------

  // A new tensor with memory. Evicts others and waits when it must. Fails (kOutOfMemory) when
  // nothing more can leave; the message tells the request and what holds the budget.
  Result<LiveTensor*> allocate(int64_t size_bytes);

  // The program has dropped the tensor. The pointer is invalid after this call, whatever the
  // tensor's state; a transfer that is under way ends by itself.
  void release(LiveTensor* tensor);
  // The program has dropped the tensor, but an op or a pin still uses it. The StorageSwap is not
  // told of it any more.
  void forget_owner(LiveTensor& tensor);

  // --- Ops ----------------------------------------------------------------------------------

  // Before an op: issues the migrations that the plan triggers at `position` (kLost: none),
  // restores the inputs, and pins them until end_op(). On failure nothing is pinned. kReplayDue:
  // the plan replays an op here, an input was discarded, or the op changes what a discarded tensor
  // needs.
  Status begin_op(trace::OpIndex position, std::span<const Use> inputs);

  // After the op, also when it failed. `uses` are its inputs, then its results, each tensor once.
  void end_op(trace::OpIndex position, std::span<const Use> uses, size_t input_count);
  // After end_op(), while a plan is followed: see ComputePoints::end_op().
  device::Event note_enqueued(int64_t duration_ns) { return points_.end_op(duration_ns); }
  // An op has ended that has made these tensors.
  void note_used(std::span<LiveTensor* const> births);
  // Whether transfers have ended that take_arrivals() has not taken. Takes no lock.
  bool has_arrivals() const { return mover_.has_arrivals(); }
  // Between ops: what transfers have ended changes, and prefetches take the memory that is free
  // now.
  void take_arrivals();
  // After end_op(), of an op that changes none of its inputs: how its results are made again.
  void add_recipe(const OpReplay& replay);
  // After end_op(), when the op has made more than its results: all that it has made.
  void bind_births(trace::OpIndex position, std::span<const Use> uses,
                   std::span<LiveTensor* const> births);

  // Restores a tensor and keeps it on the device until unpin(). Pins nest.
  Status pin(LiveTensor* tensor);
  void unpin(LiveTensor* tensor);
  // See TensorMover.
  void note_brought(LiveTensor& tensor) { mover_.note_brought(tensor); }
  // Another stream of the device uses these tensors, which are pinned: see TensorMover.
  Status order_stream(void* stream, std::span<const Use> uses);
  // The bytes of a pinned tensor are about to change outside an op: copies on tiers become stale.
  // kReplayDue: a discarded tensor needs them as they are.
  Status mark_written(LiveTensor* tensor);
  // The same where mark_written() has failed and they change all the same: a discarded tensor that
  // needs them as they were is lost.
  void note_written(LiveTensor* tensor) { mover_.mark_written(*tensor); }

  // --- Replays ------------------------------------------------------------------------------

  // Whether the plan replays the op at `position`, so that add_recipe() is wanted.
  bool is_replayed(trace::OpIndex position) const {
    return position != iteration::kLost && schedule_->is_replayed(position);
  }
  // After kReplayDue; once.
  DueReplay take_due_replay() { return *std::exchange(due_replay_, std::nullopt); }
  // Nothing is discarded from now on.
  void end_discards() { may_discard_ = false; }
  // The discarded tensor with the least id from this one on; null: there is none.
  LiveTensor* first_discarded(uint64_t least_id) const;
  // A replay of the recipe has made its results: the discarded ones get their bytes. Fails
  // (kInternal) when a result is not of the size that it had.
  Status take_results(Recipe& recipe, std::span<LiveTensor* const> made);
  // Frees tensors that were kept for recipes which are no longer needed.
  void free_kept();
  // Discards all tensors that can leave and be made again. For tests.
  void discard_everything();
  int64_t discarded_bytes() const { return mover_.amounts().discarded_bytes; }

  // --- Plan ---------------------------------------------------------------------------------

  // Positions refer to one iteration of one schedule. Another thread may end it while an op is
  // under way, whose position then means nothing: the epoch has changed.
  uint64_t epoch() const { return epoch_; }
  // Positions refer to the schedule's profile from now on; the next op is the one at `position`.
  // Persistent tensors are found by their ids, the others as `Known` tells.
  enum class Known : uint8_t {
    kPersistentTensors,  // and no others
    kTensorsSoFar,       // those of the ops before `position`, which both schedules have
    kAllTensors,         // both schedules have the same tensors
  };
  void follow(std::shared_ptr<const iteration::Schedule> schedule, trace::OpIndex position = 0,
              Known known = Known::kPersistentTensors);
  // After follow(): brings tensors to where the plan has them before its next op, as far as nothing
  // has to be waited for. Transfers for that start now.
  void take_planned_places();
  // The tiers reserve room for all copies of the plan, until another schedule is followed; where
  // they have too little, which is logged, each copy gets its room when it is made, as on demand.
  void lay_out() { copies_.lay_out(*schedule_, binding_, live_); }
  const iteration::Schedule& schedule() const { return *schedule_; }
  void start_iteration();
  // The program runs again what it has run in this iteration: the plan's actions from `position` on
  // are issued once more.
  void go_back(trace::OpIndex position);

  // --- Whole state --------------------------------------------------------------------------

  // Offloads everything that can leave, and waits. For tests in which every use has to restore.
  Status evict_everything();
  // Restores all tensors and frees their copies on the tiers. Where some do not come back, because
  // they cannot be read or the budget does not hold them, the others do; the error names them and
  // the last reason, and their copies stay for another try. Where a drive hangs and no other one
  // answers any more, an interrupt ends the wait, and what is on its way does not come back: the
  // error is kInterrupted. Tensors that are still discarded are reported as lost, with
  // `replay_failure` as the reason.
  Status restore_all(const Status& replay_failure = {});
  // Discards the bytes of all offloaded tensors. Nothing moves from now on. True: the stores may
  // go. False: a drive hangs, and transfers under way still use the stores and their memory.
  bool discard_all();
  // Nothing moves from now on. The result is that of discard_all(). Requires that restore_all() has
  // succeeded.
  bool leave_stores();
  // As for TensorMover. Any thread, without the lock.
  void end_waits() { mover_.end_waits(); }
  bool has_ended_waits() const { return mover_.has_ended_waits(); }

  std::span<LiveTensor* const> live() const { return live_; }
  uint64_t next_id() const { return next_id_; }
  const EngineCounters& counters() const { return counters_; }
  EngineCounters& counters() { return counters_; }
  int64_t offloaded_bytes() const { return mover_.amounts().offloaded_bytes; }
  // Transfers use the stores and the memory of tensors.
  bool has_transfers() const { return !mover_.is_idle() || mover_.amounts().unanswered_bytes > 0; }
  // As for TensorMover.
  int64_t unanswered_bytes() const { return mover_.amounts().unanswered_bytes; }
  // Resident bytes that can never leave: of tensors that are small, foreign, pinned or not used
  // yet.
  int64_t unmovable_bytes() const;
  bool can_leave(const LiveTensor& tensor) const { return evictor_.can_leave(tensor); }

 private:
  ProgramPlace place() const {
    return {*schedule_, last_position_, position_ == iteration::kLost, points_.op()};
  }
  void leave_as_planned(LiveTensor& tensor, const plan::Migration& action);
  void return_as_planned(LiveTensor& tensor, trace::OpIndex position);
  void drop_pin(LiveTensor& tensor);
  void release_copies();
  std::vector<const LiveTensor*> lost_tensors() const;
  Status error_of_lost(std::span<const LiveTensor* const> lost, const Status& reason) const;
  Status bring_back(std::span<const Use> uses);
  Status wait_until_resident(std::span<const Use> uses);
  Status request(LiveTensor& tensor);
  static Status did_not_come(const LiveTensor& tensor, const Status& reason);
  Status issue_until(trace::OpIndex position);
  void issue(const plan::Migration& migration);
  void discard(LiveTensor& tensor);
  Status prepare_replay(const plan::Migration& migration);
  Status replay_due(LiveTensor& tensor);
  Status check_readers(std::span<const Use> uses);
  void destroy(LiveTensor& tensor);
  void issue_prefetch(LiveTensor& tensor, const plan::Migration& migration);
  // Leaves the memory that the op at `position` will take (kLost: none).
  void start_due_prefetches(trace::OpIndex position);

  std::vector<LiveTensor*> live_;
  EngineCounters counters_;
  ComputePoints points_;
  TierCopies copies_;
  TensorMover mover_;
  Evictor evictor_;
  device::Device& device_;
  StorageSwap& swap_;
  Timeline* const timeline_;  // null: none is recorded
  std::shared_ptr<const iteration::Schedule> schedule_ =
      std::make_shared<const iteration::Schedule>();
  ProfileBinding binding_;
  PrefetchQueue due_prefetches_;
  trace::OpIndex position_ = iteration::kLost;
  trace::OpIndex last_position_ = iteration::kLost;  // that was known in this iteration
  // The actions of ops up to issued_until_ have been issued, but for those that due_actions_ lists.
  trace::OpIndex issued_until_ = iteration::kLost;
  std::span<const plan::Migration> due_actions_;
  std::vector<std::weak_ptr<Recipe>> planned_recipes_;  // per tensor of the profile
  std::optional<DueReplay> due_replay_;
  std::optional<ReplayCheck> replay_check_;
  bool may_discard_ = true;
  std::vector<LiveTensor*> kept_;  // dropped by the program, and kept for recipes
  int64_t iteration_start_ = 0;    // ops of the profile in all iterations before: orders deadlines
  uint64_t next_id_ = 1;
  uint64_t epoch_ = 0;
};

}  // namespace teraio::engine
