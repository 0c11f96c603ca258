// Steps: what runs on the compute stream under a plan: the ops of the trace and, between them, the
// replays that the plan asks for. check_replays() checks the rules of replays.
//
// A part of the validator, which shares no code with the simulator and the planners.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace teraio::plan {

// One op that runs, or runs again.
struct Step {
  trace::OpIndex op = 0;
  trace::OpIndex before_op = 0;  // for a replay, the op that it precedes; else `op`
  bool is_replay = false;
  size_t recompute = 0;                         // of a replay: the position in the plan
  std::vector<trace::TensorIndex> restores;     // of a replay: the tensors that it brings back
  std::vector<trace::TensorIndex> temporaries;  // of a replay: inputs that the program has freed
  int64_t workspace_bytes = 0;                  // of a replay: with its scratch outputs

  bool operator==(const Step&) const = default;
};

// A tensor that the program has freed, and that one replay makes for others before the same op.
struct Temporary {
  trace::TensorIndex tensor = 0;
  int64_t first_step = 0;  // makes it
  int64_t last_step = 0;   // reads it last
};

struct Steps {
  std::vector<Step> steps;
  std::vector<int64_t> step_of_op;      // per op
  std::vector<int64_t> step_of_action;  // per migration: it is issued right before this step
  std::vector<Temporary> temporaries;

  int64_t count() const { return static_cast<int64_t>(steps.size()); }
};

// Returns the steps in order; what replays restore, and temporaries, are still unknown. Requires
// that the ops of all actions exist.
Steps steps_of(const Plan& plan, const trace::Trace& trace);

// Checks the rules that concern discards and recomputes, and completes `steps`. Fails
// (kInvalidArgument) with the name of the rule ("not-replayable", "input-discarded", ...) and the
// action. Requires that the tensors of all actions exist, and validate(trace).ok(). Where offloaded
// tensors are is not checked here.
Status check_replays(const Plan& plan, const trace::Trace& trace, Steps& steps);

}  // namespace teraio::plan
