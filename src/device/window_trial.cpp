#include "device/window_trial.h"

namespace teraio::device {
namespace {

constexpr int64_t kLeastAllocations = 256;
// Per allocation. Below this, moves cost less than windows.
constexpr double kLeastPages = .05;
// In trainings that repeat well, the second or third iteration with windows mapped fewer pages.
constexpr int64_t kMostWorseIterations = 6;

}  // namespace

bool WindowTrial::is_on(int64_t moment, int64_t allocation_count, int64_t page_count) {
  const bool is_next_iteration = moment < moment_;
  moment_ = moment;
  if (state_ == State::kGivenUp) return false;
  if (state_ == State::kOn && !is_next_iteration) return true;
  const int64_t allocations = allocation_count - allocation_count_;
  if (allocations < (state_ == State::kOff ? kLeastAllocations : 1)) return state_ == State::kOn;
  const double pages = static_cast<double>(page_count - page_count_) / allocations;
  allocation_count_ = allocation_count;
  page_count_ = page_count;
  if (state_ == State::kOff) {
    usual_pages_ = pages;
    if (pages >= kLeastPages) state_ = State::kOn;
  } else {
    worse_iterations_ = pages > usual_pages_ ? worse_iterations_ + 1 : 0;
    if (worse_iterations_ >= kMostWorseIterations) state_ = State::kGivenUp;
  }
  return state_ == State::kOn;
}

}  // namespace teraio::device
