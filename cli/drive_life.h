// DriveLife: how long drives last under a training run, in words.
#pragma once

#include <cstdint>
#include <string>

#include "hardware/hardware.h"

namespace teraio::cli {

// "4.2 years", "6.8 days".
std::string life_text(double years);

// life_text() of steps without a pause; empty when no drive is rated or nothing is written.
std::string drive_life(const hardware::Hardware& hardware, int64_t written_bytes, int64_t step_ns);

}  // namespace teraio::cli
