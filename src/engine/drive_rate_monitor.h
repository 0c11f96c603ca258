// DriveRateMonitor: whether the drives do what a plan was made for, and what to plan with when not.
//
// Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hardware/hardware.h"
#include "storage/tier_store.h"

namespace teraio::engine {

class DriveRateMonitor {
 public:
  // `hardware`: what the plans are made with from now on.
  explicit DriveRateMonitor(hardware::Hardware hardware);

  // After an iteration, with the ssd tier's counters. A drive that was slower than planned in two
  // measurements in a row, or faster again, is believed (an iteration that loads no drive measures
  // nothing): hardware() has its new rates and the result
  // says which drive and by how much, as a user reads it. Otherwise nothing.
  std::optional<std::string> note_iteration(const std::vector<storage::DriveCounters>& drives);

  const hardware::Hardware& hardware() const { return hardware_; }

 private:
  struct Watched {
    hardware::Rates probed;
    double speed = 1;      // the planned rates over the probed ones
    hardware::Rates seen;  // measured under load, when last looked at
    int deviations = 0;
  };

  hardware::Hardware hardware_;
  std::vector<Watched> watched_;  // as hardware_.drives
};

}  // namespace teraio::engine
