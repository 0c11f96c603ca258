// Text about a simulated run, which several commands print.
#pragma once

#include <string>

#include "simulate/run.h"

namespace teraio::cli {

// Formats the step time against the ideal one as a line: "step 37.5 s, ideal 36.34 s: 96.9 % of
// ideal".
std::string step_text(const teraio::simulate::Run& run);

// Formats a table of the bytes written and read and the peak, with a row per place: device, host,
// SSD.
std::string traffic_text(const teraio::simulate::Run& run);

}  // namespace teraio::cli
