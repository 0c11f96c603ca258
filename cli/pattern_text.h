// Text about the patterns of a program whose steps differ, which several commands print.
#pragma once

#include <span>
#include <string>

#include "hardware/hardware.h"
#include "simulate/pattern_run.h"

namespace teraio::cli {

// Formats a table with a row per pattern (its share, step time, stalls and bytes) and one of the
// mean step; below it the traffic of the mean step, and the life of rated drives under it.
std::string patterns_text(std::span<const simulate::PatternRun> patterns,
                          const hardware::Hardware& hardware);

// Formats a share: "80.0 %".
std::string share_text(double share);

}  // namespace teraio::cli
