// The prediction for the patterns of a program whose steps differ, which several commands print.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hardware/hardware.h"
#include "inputs.h"
#include "plan/plan.h"
#include "simulate/pattern_change.h"
#include "simulate/pattern_run.h"

namespace teraio::cli {

// A pattern and how its plan executes. Refers to values that must outlive it.
struct PlannedPattern {
  const Inputs& given;
  const plan::Plan& plan;
  const teraio::simulate::Run& run;
};

struct PatternsPrediction {
  std::vector<teraio::simulate::PatternRun> runs;  // named after the trace files
  std::vector<teraio::simulate::PatternChange> changes;
};

// Requires at least one pattern; all have the same machine.
PatternsPrediction predict(std::span<const PlannedPattern> patterns);

// Formats a table with a row per pattern (its share, step time, stalls and bytes), one of the mean
// step, and one of the mean step in random order where it is known; below it what changes between
// patterns take, the traffic of the mean step, and the life of rated drives.
std::string text_of(const PatternsPrediction& prediction, const hardware::Hardware& hardware);

// Formats a share: "80.0 %".
std::string share_text(double share);

}  // namespace teraio::cli
