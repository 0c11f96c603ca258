// PatternRun: the predicted step of one pattern of a program whose steps differ.
//
// Such a program has several patterns: the ops of its steps, by what they do. Each has a trace, a
// plan and a share of the steps. Value types and pure functions; any thread may call them.
#pragma once

#include <span>
#include <string>

#include "simulate/run.h"

namespace teraio::simulate {

struct PatternRun {
  std::string name;  // for people: the trace file, for example
  double share = 1;  // of the steps; shares count relative to each other
  Run run;           // in steady state: steps of this pattern follow each other
};

// Returns the mean step: times and bytes are means over the shares, peaks are the highest ones, and
// nothing is recorded per op or transfer. Its fraction of ideal is the sum of the ideal times over
// the sum of the step times. It holds for steps that follow a step of their own pattern;
// pattern_change.h has the others. Requires that no share is negative and that one is
// positive.
Run mean_run(std::span<const PatternRun> patterns);

struct WeightedRun {
  double weight;
  const Run& run;  // must outlive it
};

// Returns the sum of the runs times their weights. Peaks are the highest ones.
Run weighted_sum(std::span<const WeightedRun> runs);

}  // namespace teraio::simulate
