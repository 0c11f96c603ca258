// Explanation: how the time of a run divides into phases of the iteration and kinds of transfers.
// Pure functions; any thread may call them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hardware/hardware.h"
#include "plan/plan.h"
#include "simulate/run.h"
#include "trace/trace.h"

namespace teraio::analysis {

// Consecutive ops during which the memory of activations grows ("forward") or shrinks ("backward"),
// or the model is updated ("update"). Phases follow from the trace alone.
struct Phase {
  std::string name;
  trace::OpIndex first_op = 0;
  trace::OpIndex last_op = 0;
  bool operator==(const Phase&) const = default;
};

// Returns the phases, which cover all ops in order.
std::vector<Phase> phases_of(const trace::Trace& trace);

struct StallShare {
  std::string what;
  int64_t compute_ns = 0;  // of the ops of a phase; 0 for a transfer
  int64_t stall_ns = 0;
  int64_t replay_ns = 0;  // of the replays before the ops of a phase
  bool operator==(const StallShare&) const = default;
};

// Returns the compute, stall and replay time of each phase, in order; a stall counts for the op
// that waits, a replay for the op that it precedes. Requires that `run` has op_start_ns and is a
// run of `trace`.
std::vector<StallShare> stall_by_phase(const simulate::Run& run, const trace::Trace& trace);

// Returns the stalls by the transfer whose end let the op start, such as "read of parameter from
// ssd", the largest first. They add up to the stall of the run. Requires op_start_ns and transfers
// of a run of `trace`.
std::vector<StallShare> stall_by_transfer(const simulate::Run& run, const trace::Trace& trace);

// Returns what keeps the step of a run from being shorter, such as "bound by reads from the drives:
// 1.20 s of waiting, 24 % of the step". Says too when host memory is full although the
// drives are used, and when one op alone needs nearly all of the device memory. Requires
// op_start_ns and transfers of a run of `trace` on this machine.
std::string binding_of(const simulate::Run& run, const trace::Trace& trace,
                       const hardware::Hardware& hardware, const plan::Limits& limits);

}  // namespace teraio::analysis
