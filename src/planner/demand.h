// Paging on demand: a plan that moves a tensor only when an op is in need of room or of the tensor.
//
// Just before an op starts, tensors that it lacks are called back, and others are evicted until it
// fits. Moves may be scheduled beside that, as layer-wise systems do. A tensor whose copy on the
// drives is still valid is dropped instead of written; host copies are not kept.
#pragma once

#include <vector>

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace teraio::planner {

enum class Victim : uint8_t {
  kLeastRecentlyUsed,
  kFarthestNextUse,
};

// A tensor leaves before op `leave_op` and is called back before op `return_op`, whether memory is
// short or not. Either may be in the next iteration. Ignored when it is away already, and called
// back only on demand when there is no room at `return_op`.
struct ScheduledMove {
  trace::TensorIndex tensor = 0;
  trace::OpIndex leave_op = 0;
  trace::OpIndex return_op = 0;
};

struct DemandOptions {
  Victim victim = Victim::kFarthestNextUse;
  std::vector<ScheduledMove> moves;
  // Per op: before which op tensors that it needs are called back, if there is room then; the same
  // or an earlier op of the iteration. Empty: each before the op itself.
  std::vector<trace::OpIndex> called_back_at;
  bool use_host = true;
  bool use_ssd = true;
};

// A plan whose iteration ends as it begins. Host memory is used first, then the drives. Fails
// (kOutOfMemory) when an op does not fit, (kOutOfSpace) when the tiers that may be used are full.
Result<plan::Plan> plan_on_demand(const trace::Trace& trace, const hardware::Hardware& hardware,
                                  const plan::Limits& limits, const DemandOptions& options);

}  // namespace teraio::planner
