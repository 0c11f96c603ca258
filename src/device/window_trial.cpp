#include "device/window_trial.h"

namespace teraio::device {
namespace {

constexpr int64_t kLeastAllocations = 256;
// Per allocation. Below this, moves cost less than windows.
constexpr double kLeastPages = .05;
// The third or fourth iteration with windows follows another plan, and maps most pages again. On an
// H200, the sixth was the first to take less time than one without windows.
constexpr int64_t kMostWorseIterations = 8;

double per_allocation(int64_t value, const AllocationTotals& totals) {
  return static_cast<double>(value) / static_cast<double>(totals.count);
}

}  // namespace

bool WindowTrial::is_on(int64_t moment, const AllocationTotals& totals) {
  const bool is_first = moment_ < 0;
  const bool is_next_iteration = moment < moment_;
  moment_ = moment;
  if (is_first) begin_ = totals;
  if (is_next_iteration && state_ != State::kGivenUp) {
    const AllocationTotals iteration = totals - begin_;
    if (iteration.count >= kLeastAllocations) {
      judge(iteration);
      begin_ = totals;
    }
  }
  return state_ == State::kOn;
}

void WindowTrial::judge(const AllocationTotals& iteration) {
  const double duration_ns = per_allocation(iteration.duration_ns, iteration);
  if (state_ == State::kOff) {
    if (per_allocation(iteration.page_count, iteration) < kLeastPages) return;
    usual_ns_ = duration_ns;
    state_ = State::kOn;
  } else {
    worse_iterations_ = duration_ns > usual_ns_ ? worse_iterations_ + 1 : 0;
    if (worse_iterations_ >= kMostWorseIterations) state_ = State::kGivenUp;
  }
}

}  // namespace teraio::device
