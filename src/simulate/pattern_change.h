// PatternChange: what it takes that a step of one pattern follows one of another.
//
// The plan of a pattern begins where its own steps end. After a step of another pattern, persistent
// tensors are elsewhere: what join_steps() moves then takes time and bytes of its own.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "simulate/pattern_run.h"
#include "simulate/step_sequence.h"

namespace teraio::simulate {

struct PatternChange {
  size_t first = 0;  // positions of the two patterns
  size_t second = 0;
  Status status;  // not ok: why the cost is not known
  // Of a change from the first pattern to the second and back: what it takes beyond the steps. The
  // times and bytes are differences, which may be negative; the peaks are those of the steps.
  Run cost;
};

// Returns an entry for each pair of patterns. It is executed on the simulator, as two steps of
// each, one after the other. The write budget of `limits` is not observed. Has no cost for patterns
// that have no persistent tensor in common, and where the steps together lack room. A pure
// function; any thread may call it.
std::vector<PatternChange> pattern_changes(std::span<const PlannedStep> patterns,
                                           const hardware::Hardware& hardware,
                                           const plan::Limits& limits);

// Returns the mean step when each step's pattern is drawn by the shares, whatever the one before
// was: a change from one pattern to another is then as frequent as the product of their shares.
// Nullopt when a cost is not known. Requires what mean_run() requires, and `changes` of `patterns`.
std::optional<Run> mean_run_in_random_order(std::span<const PatternRun> patterns,
                                            std::span<const PatternChange> changes);

}  // namespace teraio::simulate
