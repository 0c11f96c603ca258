// SustainedRate: the rate that a drive keeps once its caches are full.
//
// Caches absorb the first writes: the drive's own, or the host's in the case of a virtual drive.
// Therefore the time is divided into intervals. The last intervals count, once their rate is within
// a tolerance of the rate of the intervals before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace teraio::probe {

struct LoadRates {
  double read = 0;  // bytes per second, like the next
  double write = 0;
};

// The bytes moved since the start.
struct LoadProgress {
  int64_t time_ns = 0;
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
};

struct SustainedRateOptions {
  int64_t interval_ns = 250'000'000;
  size_t interval_count = 4;  // intervals that are compared with as many before them
  double tolerance = 0.1;     // the largest relative difference
  // At the first of these limits the latest intervals count, settled or not.
  int64_t longest_ns = 15'000'000'000;
  int64_t most_written_bytes = 24'000'000'000;  // limits the wear of the drive
};

// A value. Samples are added in order of time. Every interval contains progress in each measured
// direction: an interval in which one of them stands still is extended until it moves.
class SustainedRate {
 public:
  SustainedRate(bool reads, bool writes, const SustainedRateOptions& options)
      : reads_(reads), writes_(writes), options_(options) {}

  void add(const LoadProgress& progress);

  bool has_settled() const;
  // Whether the measurement can end: the rates have settled, or a limit is reached. Never before
  // every measured direction has moved, even if the other one exceeds its limit meanwhile.
  bool is_over() const;
  // The rates of the last intervals, or of the whole time if there are too few.
  LoadRates rates() const;
  // The rates of the first interval.
  LoadRates first_rates() const;
  const LoadProgress& progress() const { return last_; }

 private:
  bool has_moved(const LoadProgress& from, const LoadProgress& to) const;
  LoadRates rates_between(const LoadProgress& from, const LoadProgress& to) const;
  // The rates of `interval_count` intervals that end `intervals_back` intervals before the last
  // border.
  LoadRates rates_of_intervals(size_t intervals_back) const;

  bool reads_;
  bool writes_;
  SustainedRateOptions options_;
  std::vector<LoadProgress> borders_ = {LoadProgress()};
  LoadProgress last_;
};

}  // namespace teraio::probe
