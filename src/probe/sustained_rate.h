// SustainedRate: what a drive keeps up, which is not what it begins with.
//
// Caches take the first writes: a drive's own, or the host's of a virtual one. So the time is cut
// into windows, and what counts are the last of them, once these are no slower than those before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace teraio::probe {

struct LoadRates {
  double read = 0;  // bytes per second
  double write = 0;
};

// What has been moved since the start.
struct LoadProgress {
  int64_t time_ns = 0;
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
};

struct SustainedRateOptions {
  int64_t window_ns = 250'000'000;
  size_t window_count = 4;  // that are compared with as many before them
  double tolerance = 0.1;   // in what both may differ
  // At the first of these the latest windows count, settled or not.
  int64_t longest_ns = 15'000'000'000;
  int64_t most_written_bytes = 24'000'000'000;  // writes wear the drive
};

// A value, fed in the order of time. Of the directions that are measured each moves bytes in every
// window: one in which one of them stood still goes on until it no longer does.
class SustainedRate {
 public:
  SustainedRate(bool reads, bool writes, const SustainedRateOptions& options)
      : reads_(reads), writes_(writes), options_(options) {}

  void add(const LoadProgress& progress);

  bool has_settled() const;
  // Nothing is left to measure: it has settled, or a bound has been met. Never before every
  // direction has moved, even if the other one writes more than its bound meanwhile.
  bool is_over() const;
  // Of the last windows; of all there is where that is less.
  LoadRates rates() const;
  // Of the first windows.
  LoadRates first_rates() const;
  const LoadProgress& progress() const { return last_; }

 private:
  bool has_moved(const LoadProgress& from, const LoadProgress& to) const;
  LoadRates rates_between(const LoadProgress& from, const LoadProgress& to) const;
  // `windows_back` before the last border.
  LoadRates rates_of_windows(size_t windows_back) const;

  bool reads_;
  bool writes_;
  SustainedRateOptions options_;
  std::vector<LoadProgress> borders_ = {LoadProgress()};
  LoadProgress last_;
};

}  // namespace teraio::probe
