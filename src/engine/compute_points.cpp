#include "engine/compute_points.h"

#include <algorithm>
#include <utility>

namespace teraio::engine {
namespace {

constexpr int64_t kPointNs = 1'000'000;
constexpr int64_t kAheadNs = 3'000'000;
// More of them have not passed only where a device has failed.
constexpr size_t kPointsMax = 64;

}  // namespace

void ComputePoints::begin_op() {
  if (since_point_ns_ >= kPointNs) {
    if (points_.size() == kPointsMax) drop_passed();  // each question costs a call of the driver
    if (points_.size() == kPointsMax) points_.pop_front();
    points_.push_back({device_.record(), op_, std::exchange(since_point_ns_, 0)});
  }
  ++op_;
}

device::Event ComputePoints::end_op(int64_t duration_ns) {
  since_point_ns_ += duration_ns;
  int64_t ahead_ns = since_point_ns_;
  for (auto point = points_.rbegin(); point != points_.rend(); ++point) {
    if (ahead_ns >= kAheadNs) {
      const bool is_new = point->op > std::exchange(awaited_op_, point->op);
      return is_new ? point->event : device::Event();
    }
    ahead_ns += point->duration_ns;
  }
  return {};
}

device::Event ComputePoints::after(uint64_t op) {
  drop_passed();
  if (op <= passed_op_) return {};
  const auto point = std::ranges::lower_bound(points_, op, {}, &Point::op);
  return point == points_.end() ? device_.record() : point->event;
}

void ComputePoints::drop_passed() {
  while (!points_.empty() && device_.has_passed(points_.front().event)) {
    passed_op_ = points_.front().op;
    points_.pop_front();
  }
}

}  // namespace teraio::engine
