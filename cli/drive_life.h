// Text about how long drives last under a training run.
#pragma once

#include <cstdint>
#include <string>

#include "hardware/hardware.h"

namespace teraio::cli {

// Formats a duration: "4.2 years", "6.8 days".
std::string life_text(double years);

// Returns the life_text() of drives under steps that follow each other without a pause. Returns an
// empty string when no drive has an endurance rating or the steps write nothing.
std::string drive_life(const hardware::Hardware& hardware, int64_t written_bytes, int64_t step_ns);

}  // namespace teraio::cli
