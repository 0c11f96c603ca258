// PlannedMoves: carries out the plan that is followed, op by op.
//
// It issues the migrations that the plan triggers at each op, and knows which live tensor is which
// tensor of the profile (ProfileBinding). What is due and has no memory yet waits in a
// PrefetchQueue. Without a plan, it knows the program's place in the profile, for eviction.
//
//    ops      0   1   2   3   4   5
//                     ^       ^
//        issued_until_|       | position of the op that begins: what 3 and 4 trigger is issued now
//
// Threads: called under the engine's lock. Ownership: a tensor has to be forgotten before it ends.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "device/device_order.h"
#include "engine/compute_points.h"
#include "engine/discards.h"
#include "engine/engine_counters.h"
#include "engine/engine_options.h"
#include "engine/eviction_order.h"
#include "engine/evictor.h"
#include "engine/live_tensor.h"
#include "engine/prefetch_queue.h"
#include "engine/profile_binding.h"
#include "engine/tensor_mover.h"
#include "engine/tier_copies.h"
#include "engine/use.h"
#include "iteration/schedule.h"

namespace teraio::engine {

// What plans are carried out with. All outlive the PlannedMoves; `live` has all tensors.
struct EngineParts {
  const std::vector<LiveTensor*>& live;
  EngineCounters& counters;
  ComputePoints& points;
  TierCopies& copies;
  TensorMover& mover;
  Evictor& evictor;
  Discards& discards;
};

class PlannedMoves {
 public:
  PlannedMoves(const EngineOptions& options, const EngineParts& parts)
      : device_(*options.device), timeline_(options.timeline), parts_(parts) {}

  // --- What is followed -----------------------------------------------------------------------

  // Positions refer to one iteration of one schedule. Another thread may end it while an op is
  // under way, whose position then means nothing: the epoch has changed.
  uint64_t epoch() const { return epoch_; }
  const iteration::Schedule& schedule() const { return *schedule_; }
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
  void lay_out() { parts_.copies.lay_out(*schedule_, binding_, parts_.live); }
  void start_iteration();
  // The program goes on at `position`: tensors are brought to where the plan has them there, and
  // its actions from there on are issued, also those that have been.
  void jump_to(trace::OpIndex position);
  // Whether the plan replays the op at `position`, so that Discards::add_recipe() is wanted.
  bool is_replayed(trace::OpIndex position) const {
    return position != iteration::kLost && schedule_->is_replayed(position);
  }
  // After an op that takes `duration_ns` on the device: see ComputePoints::end_op().
  device::Event note_enqueued(int64_t duration_ns) { return parts_.points.end_op(duration_ns); }

  // --- For the engine -------------------------------------------------------------------------

  // An op begins: issues what the plan triggers until `position` (kLost: nothing). kReplayDue: the
  // plan replays the op at `position`.
  Status begin_op(trace::OpIndex position, std::span<const Use> inputs);
  // It has ended. `births`: all that it has made; empty: nothing but the results among `uses`.
  void end_op(trace::OpIndex position, std::span<const Use> uses,
              std::span<LiveTensor* const> births);
  // Where the program is, for eviction.
  ProgramPlace place() const {
    return {*schedule_, last_position_, position_ == iteration::kLost, parts_.points.op()};
  }
  // A tensor for which memory is to be found, and when it will leave the device.
  device::Tenant tenant(LiveTensor& tensor) const;
  // The same of one that the op under way makes.
  device::Tenant tenant_at_birth(LiveTensor& tensor, int64_t size_bytes);
  // Starts the prefetches that are due and have memory, which leaves what the op under way takes.
  void start_prefetches() {
    if (!due_prefetches_.is_empty()) start_due_prefetches(position_);
  }
  // The same between two ops: what the next one takes is left.
  void start_prefetches_between_ops();
  void cancel_prefetches() { due_prefetches_.clear(); }
  // The tensor is about to end, or is the program's no more.
  void forget(LiveTensor& tensor);

 private:
  void leave_as_planned(LiveTensor& tensor, const plan::Migration& action);
  void return_as_planned(LiveTensor& tensor, trace::OpIndex position);
  void bind_births(trace::OpIndex position, std::span<const Use> uses,
                   std::span<LiveTensor* const> births);
  double leaves_at(trace::TensorIndex tensor) const;
  Status issue_until(trace::OpIndex position);
  void issue(const plan::Migration& migration);
  Status prepare_replay(const plan::Migration& migration);
  void issue_prefetch(LiveTensor& tensor, const plan::Migration& migration);
  // Leaves the memory that the op at `position` will take (kLost: none).
  void start_due_prefetches(trace::OpIndex position);

  device::DeviceMemory& device_;
  Timeline* const timeline_;  // null: none is recorded
  const EngineParts parts_;
  std::shared_ptr<const iteration::Schedule> schedule_ =
      std::make_shared<const iteration::Schedule>();
  ProfileBinding binding_;
  PrefetchQueue due_prefetches_;
  trace::OpIndex position_ = iteration::kLost;
  trace::OpIndex last_position_ = iteration::kLost;  // that was known in this iteration
  // The actions of ops up to issued_until_ have been issued, but for those that due_actions_ lists.
  trace::OpIndex issued_until_ = iteration::kLost;
  std::span<const plan::Migration> due_actions_;
  // Of those that the op under way makes, the ones that have no memory yet.
  std::vector<trace::TensorIndex> expected_births_;
  int64_t iteration_count_ = 0;
  int64_t iteration_start_ = 0;  // ops of the profile in all iterations before: orders deadlines
  uint64_t epoch_ = 0;
};

}  // namespace teraio::engine
