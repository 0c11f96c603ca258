#include "learn/iteration_detector.h"

#include <algorithm>
#include <utility>

#include "engine/live_tensor.h"

namespace teraio::learn {
namespace {

constexpr int64_t kLongestPeriod = 8;  // in steps
// An iteration has the first steps of so many optimizers at most.
constexpr size_t kFirstOptimizers = 1024;
// In steps. A program may make ever new optimizers.
constexpr int64_t kOptimizerRemembered = 4096;

}  // namespace

// Changes of a parameter without a use between them belong to one update.
bool IterationDetector::note_update(std::span<const engine::Use> uses) {
  bool is_new = false;
  for (const engine::Use& use : uses) {
    engine::LiveTensor& tensor = *use.tensor;
    tensor.update.is_parameter |= use.is_parameter;
    if (!tensor.update.is_parameter) continue;
    if (!use.is_write) {
      tensor.update.is_used_since = true;
      continue;
    }
    is_new |= tensor.update.is_used_since && tensor.update.last == update_count_;
    tensor.update.is_used_since = false;
  }
  if (is_new) ++update_count_;
  for (const engine::Use& use : uses)
    if (use.is_write) use.tensor->update.last = update_count_;
  return is_new;
}

bool IterationDetector::expect_steps() {
  if (std::exchange(expects_steps_, true)) return false;
  step_hashes_.clear();
  steps_per_iteration_ = 1;
  step_in_iteration_ = 0;
  return true;
}

bool IterationDetector::end_step(uint64_t optimizer) {
  if (is_step_empty_) return false;
  is_step_empty_ = true;
  step_hashes_.push_back(std::exchange(step_hash_, iteration::kEmptySignature));
  iteration_hash_ = iteration::combine_signatures(iteration_hash_, step_hashes_.back());
  if (std::ssize(step_hashes_) > 2 * kLongestPeriod * steps_per_iteration_)
    step_hashes_.erase(step_hashes_.begin());
  ++step_count_;
  ++step_in_iteration_;
  if (optimizer != 0) note_optimizer(optimizer);
  if (!has_return_ && returns_.size() > 1 && returns_.size() < kFirstOptimizers) return false;
  return step_in_iteration_ >= steps_per_iteration_;
}

// The first optimizer that steps again begins an iteration with this step, and one that steps less
// often than the others ends one.
void IterationDetector::note_optimizer(uint64_t optimizer) {
  const auto [entry, is_new] = returns_.try_emplace(optimizer);
  Returns& returns = entry->second;
  const int64_t distance = step_count_ - std::exchange(returns.last_step, step_count_);
  if (is_new) return;
  const bool is_first = !std::exchange(has_return_, true);
  const bool is_again = std::exchange(returns.distance, distance) == distance;
  if ((!is_first && !is_again) || !may_be_period(distance)) return;
  returns.period = distance;
  if (distance <= steps_per_iteration_) return;
  steps_per_iteration_ = distance;
  step_in_iteration_ = is_first ? 1 : distance;
}

// One that steps now and then among many steps of another one does not tell the program's period.
bool IterationDetector::may_be_period(int64_t distance) const {
  if (distance <= kLongestPeriod) return true;
  const auto stepped_since = std::ranges::count_if(
      returns_, [&](const auto& each) { return each.second.last_step > step_count_ - distance; });
  return 2 * stepped_since >= distance;
}

// By the optimizers that still step.
int64_t IterationDetector::least_period() const {
  int64_t least = 1;
  for (const auto& [optimizer, returns] : returns_)
    if (step_count_ - returns.last_step <= 2 * returns.period)
      least = std::max(least, returns.period);
  return least;
}

void IterationDetector::find_period() {
  std::erase_if(returns_, [this](const auto& each) {
    return each.second.last_step < step_count_ - kOptimizerRemembered;
  });
  const auto end = step_hashes_.end();
  const int64_t least = least_period();
  const int64_t longest = least > 1 ? least : kLongestPeriod;
  for (int64_t period = least; period <= longest; ++period) {
    if (2 * period > std::ssize(step_hashes_)) return;
    if (!std::equal(end - period, end, end - 2 * period)) continue;
    steps_per_iteration_ = period;
    return;
  }
}

void IterationDetector::start_iteration(bool is_complete) {
  if (is_complete) previous_iteration_hash_ = iteration_hash_;
  iteration_hash_ = iteration::kEmptySignature;
  step_hash_ = iteration::kEmptySignature;
  is_step_empty_ = true;
  step_in_iteration_ = 0;
  op_count_ = 0;
}

}  // namespace teraio::learn
