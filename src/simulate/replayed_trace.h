// ReplayedTrace: a trace in which the replays of a plan are ops.
//
//   ops        0   1   2   3   4          steps      0   1   2   R   3   4
//   tensor A   W   r   .   r   r          A          W   r
//   discard before 2, recompute before 3  A'                     W   r   r
//
// A replay reads what its op reads and writes a tensor of its own: the next life of the tensor that
// it restores. A tensor that the program has freed and that other replays before the same op read
// is a temporary: its new life ends after the last of them, and all replays until then read it,
// because it cannot move. So whatever plans or executes migrations of a trace does so beside
// replays too.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/plan.h"
#include "trace/trace.h"
#include "trace/trace_index.h"

namespace teraio::simulate {

// One op of the new trace.
struct ReplayStep {
  trace::OpIndex op = 0;  // of the original trace: it runs, or runs again
  bool is_replay = false;
  trace::OpIndex before_op = 0;              // for a replay: the op that it precedes; else `op`
  std::vector<trace::TensorIndex> restores;  // for a replay: tensors of the original trace
  trace::TensorIndex temporary = -1;  // for a replay: the one that it makes, in the new trace
};

// A value type that does not refer to the original trace.
struct ReplayedTrace {
  trace::Trace trace;
  std::vector<ReplayStep> steps;                   // per op of `trace`
  std::vector<trace::TensorIndex> original;        // per tensor of `trace`
  std::vector<trace::OpIndex> step_of_op;          // per op of the original trace
  std::vector<trace::OpIndex> step_of_action;      // per action of the plan: issued before it
  std::vector<trace::TensorIndex> life_of_action;  // per action of the plan: in `trace`
};

// Returns nullopt when a replay is not legal or not possible, or an op uses a tensor that is
// discarded; validate_plan() names the rule. Takes linear time. Requires validate(trace).ok() and
// that `index` is of `trace`.
std::optional<ReplayedTrace> replay_trace(const trace::Trace& trace, const trace::TraceIndex& index,
                                          const plan::Plan& plan);

// Returns the actions of `plan` that move tensors, as a plan for `replayed.trace`. Requires that
// `replayed` is of `plan`.
plan::Plan moves_on(const ReplayedTrace& replayed, const plan::Plan& plan);

// The reverse: returns the replays of `plan`, of which `replayed` is, together with `moves`, a plan
// for `replayed.trace`, as one plan for the original trace.
plan::Plan with_moves(const ReplayedTrace& replayed, const plan::Plan& plan,
                      const plan::Plan& moves);

}  // namespace teraio::simulate
