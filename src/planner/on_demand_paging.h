// On-demand paging: a plan that migrates a tensor only when an op needs the tensor or its memory.
//
// Just before an op starts, the tensors that it lacks are prefetched, and others are evicted until
// the op fits. Layer-wise systems add scheduled migrations to that. A tensor whose copy on the
// drives is still valid is dropped instead of written; a copy on the host ends with the tensor's
// next use. Pure functions of their arguments; any thread may call them.
#pragma once

#include <vector>

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace teraio::planner {

// Which resident tensor leaves first when memory is short. kFarthestNextUse is Belady's rule
// (1966). It counts a tensor that is not used again as used right after the op that frees it,
// because its memory comes free there without a write.
enum class EvictionPolicy : uint8_t {
  kLeastRecentlyUsed,
  kFarthestNextUse,
};

// Offloads a tensor before op `offload_op` and prefetches it before op `prefetch_op`, even when
// memory is not short. Either op may be in the next iteration. Ignored for a tensor that is already
// offloaded; the prefetch happens on demand when there is no room at `prefetch_op`.
struct ScheduledMigration {
  trace::TensorIndex tensor = 0;
  trace::OpIndex offload_op = 0;
  trace::OpIndex prefetch_op = 0;
};

struct OnDemandOptions {
  EvictionPolicy eviction_policy = EvictionPolicy::kFarthestNextUse;
  std::vector<ScheduledMigration> scheduled;
  // Per op: the same or an earlier op of the iteration, before which the tensors that the op needs
  // are prefetched if there is room. Empty: each op's tensors are prefetched before the op itself.
  std::vector<trace::OpIndex> prefetch_ops;
  bool use_host = true;
  bool use_ssd = true;
};

// A plan whose iteration ends in the state in which it begins. Host memory is used first, then the
// drives. Fails (kOutOfMemory) when an op does not fit, and (kOutOfSpace) when the tiers that may
// be used are full.
Result<plan::Plan> plan_on_demand(const trace::Trace& trace, const hardware::Hardware& hardware,
                                  const plan::Limits& limits, const OnDemandOptions& options);

}  // namespace teraio::planner
