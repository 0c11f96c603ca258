// simulate(): executes a plan on a modelled machine, by the rules of docs/formats.md.
//
// Four channels (SSD in and out, host in and out), each one transfer at a time, sharing the device
// link. The iteration is repeated until it begins as the one before it did; what is returned is
// that steady state, not the warm-up.
#pragma once

#include <memory>

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "simulate/run.h"
#include "trace/trace.h"

namespace teraio::simulate {

// Causes of a stall, the keys of Run::stall_by_cause_ns.
inline constexpr const char* kStallRead = "read";      // a tensor's read is running or in the queue
inline constexpr const char* kStallMemory = "memory";  // births, workspace or a read do not fit yet
inline constexpr const char* kStallWrite = "write";    // a tensor must be written before it is read

// Simulates many plans for one trace and machine: what only depends on those is computed once.
// Refers to the trace, which must outlive it. run() may be called from several threads at once.
class Simulator {
 public:
  Simulator(const trace::Trace& trace, const hardware::Hardware& hardware,
            const plan::Limits& limits);
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  // One iteration in steady state. Fails (kInvalidArgument) with the broken rule, migration and op
  // when the plan is illegal or ends in a deadlock.
  Result<Run> run(const plan::Plan& plan) const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

// The same for one plan.
Result<Run> simulate(const trace::Trace& trace, const hardware::Hardware& hardware,
                     const plan::Limits& limits, const plan::Plan& plan);

}  // namespace teraio::simulate
