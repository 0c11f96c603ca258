// StepSequence: steps of several patterns one after the other, as one trace with one plan.
//
//   steps               A         A         B         B     (then A again)
//   plans               a         a         b         b
//   joined trace   |--------||--------||--------||--------|
//   joined plan    ^a        a         ^b        b          ^ moves what the step's plan expects
//                                                             elsewhere than the step before left
//                                                             it
#pragma once

#include <span>

#include "hardware/hardware.h"
#include "plan/plan.h"
#include "simulate/run.h"
#include "trace/trace.h"

namespace teraio::simulate {

// A step and how it executes in steady state. Refers to values that must outlive it.
struct PlannedStep {
  const trace::Trace& trace;
  const plan::Plan& plan;
  const Run& run;  // of the plan on the machine
};

struct StepSequence {
  trace::Trace trace;
  plan::Plan plan;
};

// Returns the steps in their order, which repeats. Where the plan of a step expects a persistent
// tensor elsewhere than the step before leaves it, the tensor moves when the step begins: it is
// prefetched, or offloaded (dropped where a copy is valid). A prefetch across the end of a step is
// left out where the next step's plan expects the tensor offloaded. A drop whose copy another
// pattern has made stale becomes an offload. Tensors that a step does not use stay where they are,
// unless its plan needs their room: then the largest ones leave. Requires valid traces, plans that
// validate_plan() accepts, and at least one step. A pure function; any thread may call it.
StepSequence join_steps(std::span<const PlannedStep> steps, const hardware::Hardware& hardware,
                        const plan::Limits& limits);

}  // namespace teraio::simulate
