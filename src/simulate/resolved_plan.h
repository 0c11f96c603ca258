// ResolvedPlan: a plan in the order in which it is executed, with what follows from it in steady
// state.
//
// Every tensor that moves is walked through one repeating iteration: where it is at each use and
// migration, which copies stay valid and are used again, and where it is when the iteration begins.
// The rules of a legal plan are the validator's; resolving only finds out whether the plan can be
// executed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/plan.h"
#include "simulate/tier_capacities.h"
#include "trace/trace_index.h"

namespace teraio::simulate {

struct ResolvedPlan {
  // Positions in plan.migrations by trigger op, in the plan's order.
  trace::FlatLists<int32_t> issued_at;
  // Per migration, for prefetches: the copy on the tier stays, as a later drop uses it.
  std::vector<uint8_t> keeps_copy;
  // Persistent tensors that are not on the device when the iteration begins, and those of them
  // whose prefetch (a position in the plan) was issued already. Their bytes rest on a tier.
  struct OffloadedTensor {
    trace::TensorIndex tensor = 0;
    plan::Tier tier = plan::Tier::kSsd;
    int32_t issued_prefetch = -1;
  };
  std::vector<OffloadedTensor> offloaded_at_start;
  // Per op, of the tensors that leave after their last use and are freed by it: the last migration.
  trace::FlatLists<int32_t> final_offloads;
  // Bytes of kept copies, of tensors that are on the device when the iteration begins.
  std::array<int64_t, 2> kept_bytes_at_start{};
  std::array<int64_t, 2> written_bytes{};  // per iteration, by tier
  std::array<int64_t, 2> read_bytes{};
};

// Nothing when the plan names what does not exist, or moves a tensor from where it is not: the plan
// is illegal then, and validate_plan names the rule. Checks neither memory nor the tiers' room, on
// which the execution waits, nor the write budget.
std::optional<ResolvedPlan> resolve_plan(const plan::Plan& plan, const trace::TraceIndex& index,
                                         const TierCapacities& tiers);

}  // namespace teraio::simulate
