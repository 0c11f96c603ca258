// On-demand paging: a plan that migrates a tensor only when an op needs the tensor or its memory.
//
// Just before an op starts, the tensors that it lacks are prefetched, and other tensors are evicted
// until the op fits. Layer-wise systems add scheduled migrations. A tensor whose copy on the drives
// is still valid is dropped instead of written; a copy on the host ends with the next use of the
// tensor, unless the options keep it. Pure functions; any thread may call them.
#pragma once

#include <vector>

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace teraio::planner {

// Which resident tensor is evicted first. kFarthestNextUse is Belady's rule (1966). For a tensor
// that no op uses again, it takes the op after the one that frees it as the next use, because the
// memory becomes free there without a write.
enum class EvictionPolicy : uint8_t {
  kLeastRecentlyUsed,
  kFarthestNextUse,
};

// Offloads a tensor before op `offload_op` and prefetches it before op `prefetch_op`, even when
// memory is not short. Either op may be in the next iteration. The offload is ignored for a tensor
// that is already offloaded or that op `offload_op` uses. When there is no room at `prefetch_op`,
// the tensor is prefetched on demand.
struct ScheduledMigration {
  trace::TensorIndex tensor = 0;
  trace::OpIndex offload_op = 0;
  trace::OpIndex prefetch_op = 0;
};

struct OnDemandOptions {
  EvictionPolicy eviction_policy = EvictionPolicy::kFarthestNextUse;
  std::vector<ScheduledMigration> scheduled;
  // Per op: the op itself or an earlier op of the iteration. The tensors that the op needs are
  // prefetched before that op if there is room. Empty: before the op itself.
  std::vector<trace::OpIndex> prefetch_ops;
  // Per tensor: whether it may leave the device at all. Empty: every tensor may.
  std::vector<bool> may_move;
  // Per tensor: whether its copy on the host stays valid until an op writes the tensor. Empty: no.
  std::vector<bool> keeps_host_copy;
  bool use_ssd = true;
};

// Returns a plan whose iteration ends in the state in which it begins. Host memory is used before
// the drives. Ignores the write budget and smallest_tensor_bytes. Fails (kOutOfMemory) when an op
// does not fit beside the tensors that may not move, and (kOutOfSpace) when the allowed tiers are
// full. Requires that the trace and the hardware are valid.
Result<plan::Plan> plan_on_demand(const trace::Trace& trace, const hardware::Hardware& hardware,
                                  const plan::Limits& limits, const OnDemandOptions& options);

}  // namespace teraio::planner
