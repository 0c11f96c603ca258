// DriveRateMonitor: compares the rates that drives reach under load with those that plans assume.
//
// Threads: one at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hardware/hardware.h"
#include "storage/tier_store.h"

namespace teraio::learn {

class DriveRateMonitor {
 public:
  // `hardware`: what plans are made with.
  explicit DriveRateMonitor(hardware::Hardware hardware);

  // Called after an iteration, with the ssd tier's counters. When a drive was slower or faster than
  // planned in two measurements in a row, hardware() changes to its new rates, and the result is a
  // message for the user that names the drive and both rates. Otherwise nothing. An iteration that
  // loads no drive measures nothing.
  std::optional<std::string> note_iteration(const std::vector<storage::DriveCounters>& drives);

  const hardware::Hardware& hardware() const { return hardware_; }

 private:
  struct Watched {
    Rates first;
    double speed = 1;  // the planned rates over the first ones
    Rates seen;        // measured under load, when last looked at
    int deviations = 0;
  };

  hardware::Hardware hardware_;
  std::vector<Watched> watched_;  // as hardware_.drives
};

}  // namespace teraio::learn
