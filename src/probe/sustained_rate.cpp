#include "probe/sustained_rate.h"

#include <algorithm>
#include <cmath>

namespace teraio::probe {
namespace {

bool are_alike(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::max(a, b);
}

}  // namespace

void SustainedRate::add(const LoadProgress& progress) {
  last_ = progress;
  const LoadProgress& border = borders_.back();
  if (progress.time_ns - border.time_ns >= options_.interval_ns && has_moved(border, progress))
    borders_.push_back(progress);
}

bool SustainedRate::has_moved(const LoadProgress& from, const LoadProgress& to) const {
  return (!reads_ || to.bytes_read > from.bytes_read) &&
         (!writes_ || to.bytes_written > from.bytes_written);
}

LoadRates SustainedRate::rates_between(const LoadProgress& from, const LoadProgress& to) const {
  const double seconds = static_cast<double>(to.time_ns - from.time_ns) * 1e-9;
  if (seconds <= 0) return {};
  return {static_cast<double>(to.bytes_read - from.bytes_read) / seconds,
          static_cast<double>(to.bytes_written - from.bytes_written) / seconds};
}

LoadRates SustainedRate::rates_of_intervals(size_t intervals_back) const {
  const auto end = borders_.end() - 1 - static_cast<ptrdiff_t>(intervals_back);
  return rates_between(*(end - static_cast<ptrdiff_t>(options_.interval_count)), *end);
}

bool SustainedRate::has_settled() const {
  if (borders_.size() <= 2 * options_.interval_count) return false;
  const LoadRates late = rates_of_intervals(0);
  const LoadRates early = rates_of_intervals(options_.interval_count);
  return are_alike(early.read, late.read, options_.tolerance) &&
         are_alike(early.write, late.write, options_.tolerance);
}

bool SustainedRate::is_over() const {
  if (!has_moved({}, last_)) return false;
  return has_settled() || last_.time_ns >= options_.longest_ns ||
         last_.bytes_written >= options_.most_written_bytes;
}

LoadRates SustainedRate::rates() const {
  if (borders_.size() <= options_.interval_count) return rates_between({}, last_);
  return rates_of_intervals(0);
}

LoadRates SustainedRate::first_rates() const {
  return rates_between({}, borders_.size() > 1 ? borders_[1] : last_);
}

}  // namespace teraio::probe
