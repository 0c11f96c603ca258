#include "learn/iteration_detector.h"

#include <algorithm>
#include <utility>

#include "engine/live_tensor.h"

namespace teraio::learn {
namespace {

constexpr size_t kLongestPeriod = 8;  // steps

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

bool IterationDetector::end_step() {
  if (is_step_empty_) return false;
  is_step_empty_ = true;
  step_hashes_.push_back(std::exchange(step_hash_, iteration::kEmptySignature));
  iteration_hash_ = iteration::combine_signatures(iteration_hash_, step_hashes_.back());
  if (step_hashes_.size() > 2 * kLongestPeriod) step_hashes_.erase(step_hashes_.begin());
  return ++step_in_iteration_ >= steps_per_iteration_;
}

void IterationDetector::find_period() {
  const auto end = step_hashes_.end();
  for (size_t period = 1; 2 * period <= step_hashes_.size() && period <= kLongestPeriod; ++period) {
    const auto length = static_cast<ptrdiff_t>(period);
    if (!std::equal(end - length, end, end - 2 * length)) continue;
    steps_per_iteration_ = static_cast<int64_t>(period);
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
