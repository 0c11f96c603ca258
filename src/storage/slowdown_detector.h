// SlowdownDetector: compares one drive's measured rates with what the plan expects of them.
//
// Directions that run at the same time share the drive: half the expected rate in both is not slow.
// A slowdown begins at four fifths of the expected rate and ends at nine tenths, so that a drive on
// the edge does not alternate. Threads: one at a time.
#pragma once

#include <array>
#include <optional>

#include "base/rates.h"
#include "storage/drive_meter.h"
#include "storage/slowdown.h"

namespace teraio::storage {

class SlowdownDetector {
 public:
  // An unknown rate expects nothing.
  explicit SlowdownDetector(const Rates& expected_rates)
      : expected_rates_{static_cast<double>(expected_rates.read_bytes_per_second),
                        static_cast<double>(expected_rates.write_bytes_per_second)} {}

  // To be called when `meter` has a new rate in `direction`. Returns a slowdown that begins with
  // it, without written bytes and temperature. Removes the meter's slowdown when it has ended.
  std::optional<Slowdown> compare(DriveMeter& meter, io::Direction direction);

 private:
  // The sum, over both directions, of the measured rate as a fraction of the expected one. nullopt
  // if unknown.
  std::optional<double> speed(const DriveMeter& meter, io::Direction direction) const;

  std::array<double, 2> expected_rates_;  // by direction
  std::array<bool, 2> is_slow_{};
};

}  // namespace teraio::storage
