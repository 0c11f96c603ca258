// Baselines: plans that follow the published policies of other systems, to compare ours with.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace teraio::planner {

enum class Baseline : uint8_t {
  // Moves only what an op is in need of; evicts what was used longest ago.
  kOnDemandLru,
  // The same, evicting what is needed last: the best that is known without looking ahead in time.
  kOnDemandFarthest,
  // Ren et al., 2021: gradients and optimizer states live in host memory and are streamed layer by
  // layer; parameters and activations stay. Host memory only.
  kZeroOffload,
  // Rajbhandari et al., 2021: parameters, gradients and optimizer states leave with their layer and
  // return one layer ahead, on every tier; so do activations, where memory is short.
  kZeroInfinity,
  // SSDTrain (Wu et al., 2024): activations leave after the forward pass of their layer and return
  // one layer ahead in the backward pass; everything else stays.
  kActivationsOnly,
  // G10 (Zhang et al., 2023): best benefit per cost, drives first, prefetched as early as memory
  // allows; every eviction writes.
  kG10,
};

std::span<const Baseline> all_baselines();
std::string_view to_string(Baseline baseline);

// What a policy leaves over (memory that is still short) is evicted on demand, farthest next use
// first, to the tiers that the policy uses; it returns on demand too unless said otherwise. Fails
// (kOutOfMemory, kOutOfSpace) when that is not enough.
Result<plan::Plan> plan_baseline(Baseline baseline, const trace::Trace& trace,
                                 const hardware::Hardware& hardware, const plan::Limits& limits);

}  // namespace teraio::planner
