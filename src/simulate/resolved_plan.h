// ResolvedPlan: a plan checked for legality and put in the order in which it is executed.
//
// Walks every tensor that moves through one iteration in steady state: where it is at each use and
// migration, which copies stay valid and are worth keeping, and where it is when the iteration
// begins.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"
#include "trace/trace_index.h"

namespace teraio::simulate {

struct TierCapacities {
  TierCapacities(const hardware::Hardware& hardware, const plan::Limits& limits);

  // Indexed by Tier; 0 for a tier that does not exist.
  std::array<int64_t, 2> capacity_bytes{};
};

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

// Fails (kInvalidArgument) with "<rule>: migrations[<position>] (...)".
Result<ResolvedPlan> resolve_plan(const plan::Plan& plan, const trace::Trace& trace,
                                  const trace::TraceIndex& index, const TierCapacities& tiers);

// "migrations[7] (offload of tensor 12 at op 3, ssd)".
std::string describe(const plan::Plan& plan, const trace::Trace& trace, size_t migration);

}  // namespace teraio::simulate
