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
  last_steps_.clear();
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
  if (!ends_iteration(optimizer)) return false;
  if (!has_period() || !last_steps_.empty()) last_steps_.push_back(optimizer);
  if (std::ssize(last_steps_) > kOptimizerRemembered) last_steps_.pop_front();
  return true;
}

// While the last optimizer steps no more, too.
int64_t IterationDetector::most_steps() const {
  return std::max(2 * steps_per_iteration_, kLongestPeriod);
}

bool IterationDetector::ends_iteration(uint64_t optimizer) const {
  if (!has_return_ && returns_.size() > 1 && returns_.size() < kFirstOptimizers) return false;
  if (last_optimizer_ == 0) return step_in_iteration_ >= steps_per_iteration_;
  return optimizer == last_optimizer_ || step_in_iteration_ >= most_steps();
}

// The first optimizer that steps again begins an iteration with this step, and one that steps less
// often than the others ends one.
void IterationDetector::note_optimizer(uint64_t optimizer) {
  const auto [entry, is_new] = returns_.try_emplace(optimizer);
  Returns& returns = entry->second;
  const int64_t distance = step_count_ - std::exchange(returns.last_step, step_count_);
  ++returns.step_count;
  if (is_new) return;
  const bool is_first = !std::exchange(has_return_, true);
  const bool is_again = std::exchange(returns.distance, distance) == distance;
  if (optimizer == last_optimizer_ && may_be_period(distance))
    steps_per_iteration_ = std::max(steps_per_iteration_, distance);
  if ((!is_first && !is_again) || !may_be_period(distance)) return;
  returns.period = distance;
  if (distance <= steps_per_iteration_) return;
  steps_per_iteration_ = distance;
  last_optimizer_ = is_first ? previous_optimizer() : rarest_optimizer(distance);
  if (last_optimizer_ != 0) returns_[last_optimizer_].period = distance;
  if (!is_first) return;
  step_in_iteration_ = 1;
  last_steps_.clear();
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
    if (least == 1) last_optimizer_ = has_period() ? 0 : rarest_optimizer(period);
    if (last_optimizer_ == 0) last_steps_.clear();
    steps_per_iteration_ = period;
    return;
  }
}

// Of the step before; 0: it is not known.
uint64_t IterationDetector::previous_optimizer() const {
  const auto found = std::ranges::find_if(
      returns_, [this](const auto& each) { return each.second.last_step == step_count_ - 1; });
  return found == returns_.end() ? 0 : found->first;
}

// Of those that have returned after so many steps, the one with the fewest steps; 0: there is none.
uint64_t IterationDetector::rarest_optimizer(int64_t distance) const {
  uint64_t rarest = 0;
  std::pair<int64_t, int64_t> least;
  for (const auto& [optimizer, returns] : returns_) {
    if (returns.distance != distance || returns.last_step <= step_count_ - distance) continue;
    const std::pair steps(returns.step_count, -returns.last_step);
    if (rarest != 0 && least < steps) continue;
    rarest = optimizer;
    least = steps;
  }
  return rarest;
}

std::vector<int64_t> IterationDetector::take_parts() {
  if (last_steps_.empty() || last_optimizer_ == 0) return {};
  std::vector<int64_t> counts = {0};
  for (auto step = last_steps_.rbegin(); step != last_steps_.rend(); ++step) {
    if (*step == last_optimizer_) counts.push_back(0);
    if (++counts.back() == most_steps()) break;
  }
  last_steps_.clear();
  return counts;
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
