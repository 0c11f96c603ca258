#include "storage/slowdown_detector.h"

namespace teraio::storage {
namespace {

// Of the expected rate.
constexpr double kSlowShare = 0.8;
constexpr double kRecoveredShare = 0.9;

size_t index_of(io::Direction direction) { return static_cast<size_t>(direction); }

}  // namespace

std::optional<double> SlowdownDetector::speed(const DriveMeter& meter,
                                              io::Direction direction) const {
  double sum = 0;
  for (const io::Direction each : {io::Direction::kRead, io::Direction::kWrite}) {
    const double share = each == direction ? 1 : meter.shared(direction);
    if (share == 0) continue;
    const double expected = expected_rates_[index_of(each)];
    if (expected <= 0 || meter.rate(each) <= 0) return std::nullopt;
    sum += share * meter.rate(each) / expected;
  }
  return sum;
}

std::optional<Slowdown> SlowdownDetector::compare(DriveMeter& meter, io::Direction direction) {
  const std::optional<double> share = speed(meter, direction);
  if (!share) return std::nullopt;
  bool& is_slow = is_slow_[index_of(direction)];
  if (!is_slow && *share < kSlowShare) {
    is_slow = true;
    return Slowdown{direction, meter.rate(direction), expected_rates_[index_of(direction)], 0,
                    std::nullopt};
  }
  if (is_slow && *share >= kRecoveredShare) {
    is_slow = false;
    meter.set_slowdown(direction, "");
  }
  return std::nullopt;
}

}  // namespace teraio::storage
