#include "probe/learned_rates.h"

#include <algorithm>

namespace teraio::probe {
namespace {

// Shorter runs may have seen only what a cache takes: they count in part.
constexpr double kSecondsToBelieve = 3;
// Less than this part of the drive says little about the direction that had it.
constexpr double kLeastPart = 0.2;

bool is_known(const storage::LoadedRates& rates) { return rates.sample_count > 0; }

struct LearnedRates {
  double read = 0;
  double write = 0;
  double duplex = 1;

  void approach(const LearnedRates& other, double weight) {
    read += weight * (other.read - read);
    write += weight * (other.write - write);
    duplex += weight * (other.duplex - duplex);
  }
};

// Makes r/R + w/W = duplex true of what both directions reached at once.
void fit(LearnedRates& rates, const storage::LoadedRates& both, bool is_read_known,
         bool is_write_known) {
  const double read_part = both.read_bytes_per_second / rates.read;
  const double write_part = both.write_bytes_per_second / rates.write;
  if (is_read_known && is_write_known) {
    rates.duplex = std::clamp(read_part + write_part, 1.0, 2.0);
  } else if (is_read_known) {
    const double left = rates.duplex - read_part;
    if (left >= kLeastPart) rates.write = both.write_bytes_per_second / left;
  } else if (is_write_known) {
    const double left = rates.duplex - write_part;
    if (left >= kLeastPart) rates.read = both.read_bytes_per_second / left;
  } else {
    const double speed = (read_part + write_part) / rates.duplex;
    rates.read *= speed;
    rates.write *= speed;
  }
}

}  // namespace

std::optional<DriveProbe> learned_from(const storage::DriveCounters& run, DriveProbe known) {
  LearnedRates rates{static_cast<double>(known.rates.read_bytes_per_second),
                     static_cast<double>(known.rates.write_bytes_per_second), known.duplex};
  LearnedRates seen = rates;
  const bool is_read_known = is_known(run.reads_alone);
  const bool is_write_known = is_known(run.writes_alone);
  if (is_read_known) seen.read = run.reads_alone.read_bytes_per_second;
  if (is_write_known) seen.write = run.writes_alone.write_bytes_per_second;
  if (is_known(run.both_at_once)) fit(seen, run.both_at_once, is_read_known, is_write_known);
  const int32_t seconds =
      run.reads_alone.sample_count + run.writes_alone.sample_count + run.both_at_once.sample_count;
  if (seconds == 0) return std::nullopt;
  rates.approach(seen, std::min(seconds / kSecondsToBelieve, 1.0));
  known.rates.read_bytes_per_second = std::max<int64_t>(static_cast<int64_t>(rates.read), 1);
  known.rates.write_bytes_per_second = std::max<int64_t>(static_cast<int64_t>(rates.write), 1);
  known.duplex = rates.duplex;
  known.origin = RatesOrigin::kRuns;
  known.peak_rates.read_bytes_per_second =
      std::max(known.peak_rates.read_bytes_per_second, known.rates.read_bytes_per_second);
  known.peak_rates.write_bytes_per_second =
      std::max(known.peak_rates.write_bytes_per_second, known.rates.write_bytes_per_second);
  return known;
}

}  // namespace teraio::probe
