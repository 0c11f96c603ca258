// simulate(): executes a plan on a modelled machine by the rules of docs/formats.md.
//
// Four channels (one per tier and direction) run one transfer at a time each and share the device
// link. The iteration repeats until it begins in the same state as the one before, at most 32
// times; the result is the last iteration, without the warm-up.
//
// A replay is an op: it waits for its inputs and for room, runs on the compute stream, and takes
// the time of the op that runs again.
#pragma once

#include <memory>

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "simulate/run.h"
#include "trace/trace.h"

namespace teraio::simulate {

// Causes of a stall: the keys of Run::stall_by_cause_ns.
inline constexpr const char* kStallRead = "read";      // a tensor is being read, or its read waits
inline constexpr const char* kStallMemory = "memory";  // births, workspace or a read do not fit yet
inline constexpr const char* kStallWrite = "write";    // a tensor must be written before it is read

// Simulates many plans for one trace and machine; everything that depends on those alone is
// computed once. Refers to the trace, which must outlive it. Several threads may call run() at
// once.
class Simulator {
 public:
  Simulator(const trace::Trace& trace, const hardware::Hardware& hardware,
            const plan::Limits& limits);
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  // Returns one iteration in steady state. Fails (kInvalidArgument) when the plan cannot be
  // executed: the message names the broken rule, or the op that waits in a deadlock. Requires
  // validate(trace).ok(). Checks only what the execution meets: validate_plan() checks every rule.
  Result<Run> run(const plan::Plan& plan) const;

 private:
  Result<Run> run_with_replays(const plan::Plan& plan) const;

  struct State;
  std::unique_ptr<const State> state_;
};

// The same for one plan.
Result<Run> simulate(const trace::Trace& trace, const hardware::Hardware& hardware,
                     const plan::Limits& limits, const plan::Plan& plan);

}  // namespace teraio::simulate
