// ResolvedPlan: a plan in execution order, with its consequences in steady state.
//
// Each tensor that moves is followed through one iteration: where it is at each use and migration,
// which copies stay valid and are used again, and where it is when the iteration begins.
// validate_plan() checks the rules of a legal plan; this code only finds out whether the plan can
// be executed.
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
  // By trigger op: positions in plan.migrations, in the order of the plan.
  trace::FlatLists<int32_t> issued_at;
  // Per migration, for prefetches: the copy on the tier stays because a later drop uses it.
  std::vector<uint8_t> keeps_copy;
  // Persistent tensors that are offloaded or being prefetched when the iteration begins; their
  // bytes are on a tier. `issued_prefetch` is the position of a prefetch that was issued before, or
  // -1.
  struct OffloadedTensor {
    trace::TensorIndex tensor = 0;
    plan::Tier tier = plan::Tier::kSsd;
    int32_t issued_prefetch = -1;
  };
  std::vector<OffloadedTensor> offloaded_at_start;
  // Per op: the last migration of each tensor that is offloaded after its last use and that the op
  // frees.
  trace::FlatLists<int32_t> final_offloads;
  // By tier: kept copies of tensors that are on the device when the iteration begins.
  std::array<int64_t, 2> kept_bytes_at_start{};
  std::array<int64_t, 2> written_bytes{};  // per iteration, by tier
  std::array<int64_t, 2> read_bytes{};
};

// Returns nullopt when the plan refers to something that does not exist, or moves a tensor from a
// place where it is not; validate_plan() names the rule that such a plan breaks. Does not check
// device memory and the room on the tiers, for which the execution waits, nor the write budget.
std::optional<ResolvedPlan> resolve_plan(const plan::Plan& plan, const trace::TraceIndex& index,
                                         const TierCapacities& tiers);

}  // namespace teraio::simulate
