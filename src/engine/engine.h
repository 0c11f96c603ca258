// Engine: keeps the tensors of a running program within the device budget, by a plan where there is
// one and on demand where there is none.
//
// The engine decides what moves on demand, and its parts do the rest:
//
//   PlannedMoves    what the plan triggers at each op, and where in the profile the program is
//   Discards        tensors that leave without a copy, and what is to run for them again
//   Evictor         makes room on the device
//   TensorMover     moves bytes, and changes the Residency of tensors
//   TierCopies      where the tiers keep the bytes
//   ComputePoints   how far the device has come
//
// The engine's owner also calls the first two, and the mover where its comments say so.
//
// States change only inside the calls below. The stores' threads leave finished transfers in a
// queue and touch nothing else.
//
// Threads: all calls come under one lock of the owner. A call may wait for I/O with that lock held.
// The stores' threads need neither that lock nor Python's, so the wait ends when the drives answer.
// EngineOptions::interrupt, or TensorMover::end_waits(), ends it before: the call fails with
// kInterrupted, as if it had not been made, except that transfers which it has started go on.
//
// Ownership: the engine owns every LiveTensor from allocate() until release(), and its memory.
//
// A call that needs discarded bytes fails with kReplayDue and has had no effect except that
// migrations were issued: see Discards.
//
// Failure: a failed read makes the op that needs it fail, and the bytes stay on the tier. A failed
// write leaves the tensor on the device, and later writes go elsewhere (TierCopies).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/compute_points.h"
#include "engine/discards.h"
#include "engine/engine_counters.h"
#include "engine/engine_options.h"
#include "engine/evictor.h"
#include "engine/live_tensor.h"
#include "engine/planned_moves.h"
#include "engine/tensor_mover.h"
#include "engine/tier_copies.h"
#include "engine/use.h"
#include "trace/trace.h"

namespace teraio::engine {

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
  // `births`: all tensors that it has made.
  void end_op(trace::OpIndex position, std::span<const Use> uses, size_t input_count,
              std::span<LiveTensor* const> births = {});
  // Between ops: what transfers have ended changes, and prefetches take the memory that is free
  // now.
  void take_arrivals();

  // Restores a tensor and keeps it on the device until unpin(). Pins nest.
  Status pin(LiveTensor* tensor);
  void unpin(LiveTensor* tensor);
  // Another stream of the device uses these tensors, which are pinned: see TensorMover.
  Status order_stream(void* stream, std::span<const Use> uses);
  // The bytes of a pinned tensor are about to change outside an op: copies on tiers become stale.
  // kReplayDue: a discarded tensor needs them as they are.
  Status mark_written(LiveTensor* tensor);
  // Frees tensors that were kept for recipes which are no longer needed.
  void free_kept();

  // --- Parts --------------------------------------------------------------------------------

  PlannedMoves& plan() { return plan_; }
  const PlannedMoves& plan() const { return plan_; }
  Discards& discards() { return discards_; }
  // Its owner may ask for arrivals, end waits, and tell what was brought or written.
  TensorMover& mover() { return mover_; }

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

  std::span<LiveTensor* const> live() const { return live_; }
  uint64_t next_id() const { return next_id_; }
  const EngineCounters& counters() const { return counters_; }
  const MovedAmounts& amounts() const { return mover_.amounts(); }
  // Resident bytes that can never leave: of tensors that are small, foreign, pinned or not used
  // yet.
  int64_t unmovable_bytes() const;
  bool can_leave(const LiveTensor& tensor) const { return evictor_.can_leave(tensor); }

 private:
  void detach(LiveTensor& tensor);
  void destroy(LiveTensor& tensor);
  void drop_pin(LiveTensor& tensor);
  Status bring_back(std::span<const Use> uses);
  Status wait_until_resident(std::span<const Use> uses);
  Status request(LiveTensor& tensor);
  static Status did_not_come(const LiveTensor& tensor, const Status& reason);
  void cancel_moves();
  void release_copies();
  std::vector<const LiveTensor*> lost_tensors() const;
  Status error_of_lost(std::span<const LiveTensor* const> lost, const Status& reason) const;

  std::vector<LiveTensor*> live_;
  uint64_t next_id_ = 1;
  EngineCounters counters_;
  ComputePoints points_;
  TierCopies copies_;
  TensorMover mover_;
  Evictor evictor_;
  Discards discards_;
  PlannedMoves plan_;
  StorageSwap& swap_;
};

}  // namespace teraio::engine
