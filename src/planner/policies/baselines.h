// Baselines: plans by the published policies of other systems, for comparison.
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
  // Prefetches a tensor only when an op needs it, and evicts the least recently used one.
  kOnDemandLru,
  // The same, but evicts the tensor with the farthest next use (Belady, 1966).
  kOnDemandFarthest,
  // Ren et al., 2021: gradients and optimizer states are in host memory and are streamed layer by
  // layer; parameters and activations never leave the device. Uses no drives.
  kZeroOffload,
  // Rajbhandari et al., 2021: parameters, gradients and optimizer states are offloaded after their
  // layer and prefetched ahead of their layer, on all tiers; so are activations where memory is
  // short. The host keeps the copy of a parameter until an op writes the parameter, where this
  // makes
  // the step faster: it leaves less room for other tensors.
  kZeroInfinity,
  // SSDTrain (Wu et al., 2024): activations are offloaded after the forward pass of their layer and
  // prefetched one layer ahead in the backward pass; all other tensors never leave the device.
  kActivationsOnly,
  // G10 (Zhang et al., 2023): chooses by benefit per cost, prefers the drives where both tiers
  // relieve the same pressure, and prefetches as early as memory allows. Every eviction writes.
  kG10,
};

std::span<const Baseline> all_baselines();
std::string_view to_string(Baseline baseline);  // "on-demand", "g10", ...

// Returns the plan of a baseline. kZeroOffload and kZeroInfinity read one, two or four layers
// ahead, whichever makes the fastest step. Where a policy leaves memory short, the tensors that it
// moves are also evicted on demand to the tiers that it uses, the one with the farthest next use
// first (with kOnDemandLru, the least recently used one), and prefetched on demand unless stated
// otherwise; kG10 relieves that pressure with select_to_fit(). Fails (kOutOfMemory, kOutOfSpace)
// when that is not enough. Requires that the trace and the hardware are valid. All policies but
// kG10 ignore the write budget and smallest_tensor_bytes. A pure function; any thread may call it.
Result<plan::Plan> plan_baseline(Baseline baseline, const trace::Trace& trace,
                                 const hardware::Hardware& hardware, const plan::Limits& limits);

}  // namespace teraio::planner
