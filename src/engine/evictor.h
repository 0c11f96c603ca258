// Evictor: makes room on the device. Tensors leave it when a plan says so, and on demand, in the
// order of in_eviction_order(), when an op needs memory that is not free.
//
// A tensor with a valid copy on a tier is dropped; any other is written out, on demand to the host
// tier where that has room. A plan may write it to another tier than the one that has the copy,
// whose room is free from then on. What leaves on demand may find no room beside what the plan
// needs: then the tiers' layouts are given up.
//
// A GPU's program is ahead of it: an op that used a tensor has ended for the program when the copy
// that brings the tensor is still under way. Where a plan sends it away then, its eviction is due
// when the copy has ended. So is that of a tensor that only passes the device, from tier to tier.
//
// Threads: called under the engine's lock. obtain_memory() may wait for I/O.
//
// Failure: a tensor that cannot leave stays, and another one leaves in its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device_memory.h"
#include "engine/engine_counters.h"
#include "engine/engine_options.h"
#include "engine/eviction_order.h"
#include "engine/live_tensor.h"
#include "engine/tensor_mover.h"
#include "engine/tier_copies.h"

namespace teraio::engine {

class Evictor {
 public:
  // `live`, which has all tensors, and the other references outlive the evictor. It counts in
  // `counters` what leaves, and for how long it waits.
  Evictor(const EngineOptions& options, const std::vector<LiveTensor*>& live, TierCopies& copies,
          TensorMover& mover, EngineCounters& counters);

  // Returns whether the tensor is resident and complete, has an owner, is large enough to offload,
  // and is used by no op or pin.
  bool can_leave(const LiveTensor& tensor) const {
    return can_move(tensor) && tensor.size_bytes >= smallest_tensor_bytes_;
  }

  // Returns device memory, which is the caller's. Evicts tensors and waits when it must. Fails
  // (kOutOfMemory) when nothing more can leave; the message tells the request and what holds the
  // budget.
  Result<std::byte*> obtain_memory(int64_t size_bytes, const ProgramPlace& place,
                                   const device::Tenant& tenant = {});
  // Likewise, from what is free. Tensors move on the device where it is scattered. nullptr: there
  // is too little. Does not wait.
  std::byte* take_free(int64_t size_bytes, const device::Tenant& tenant);

  // What the budget has left, as a sum: one allocation may get less. Negative where more is
  // allocated than the budget holds by now.
  int64_t free_bytes() const { return device_.budget_bytes() - device_.allocated_bytes(); }

  // Drops the tensor, or starts to write it out. Requires can_leave(). True: its memory is free.
  bool evict(LiveTensor& tensor);

  // The same by an offload or drop of the plan. Counts a tensor that cannot leave, or for which the
  // tier has no room, as skipped.
  void evict_by_plan(LiveTensor& tensor, const plan::Migration& planned);
  // Starts the evictions that are due and can begin. Returns whether there were any.
  bool start_due_evictions() { return !due_evictions_.empty() && start_evictions(); }
  // The tensor stays: it is used again, wanted back or gone.
  void cancel_eviction(const LiveTensor& tensor) {
    if (!due_evictions_.empty()) forget_eviction(tensor);
  }
  // All of them stay: the plan does not apply any more.
  void cancel_evictions() { due_evictions_.clear(); }

 private:
  struct DueEviction {
    LiveTensor* tensor = nullptr;
    plan::Migration planned;
  };

  bool start_evictions();
  static bool is_on_its_way(const LiveTensor& tensor, const plan::Migration& planned);
  static bool needs_write(const LiveTensor& tensor, const plan::Migration& planned);
  bool is_eviction_due(const LiveTensor& tensor) const;
  void forget_eviction(const LiveTensor& tensor);
  int64_t bytes_leaving() const;  // soon, by writes and due evictions
  // On the device: of any size.
  static bool can_move(const LiveTensor& tensor);
  bool make_room(int64_t size_bytes, int64_t most_bytes);
  bool evict_for(int64_t size_bytes, const ProgramPlace& place);
  bool evict_first(const std::vector<LiveTensor*>& victims, int64_t size_bytes);
  std::vector<LiveTensor*> candidates() const;
  bool start_write(LiveTensor& tensor, plan::Tier tier, storage::Priority priority);
  void expedite_writes();
  Status memory_error(int64_t size_bytes) const;
  std::string budget_advice(const device::MemoryUsage& usage, int64_t size_bytes) const;

  device::DeviceMemory& device_;
  const int64_t smallest_tensor_bytes_;
  const int64_t moves_per_byte_;
  const std::function<int64_t()> least_budget_bytes_;
  const std::vector<LiveTensor*>& live_;
  TierCopies& copies_;
  TensorMover& mover_;
  EngineCounters& counters_;
  std::vector<DueEviction> due_evictions_;
};

}  // namespace teraio::engine
