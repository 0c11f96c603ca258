#include "learn/iteration_detector.h"

#include <algorithm>
#include <utility>

#include "engine/live_tensor.h"

namespace teraio::learn {
namespace {

constexpr size_t kLongestPeriod = 8;  // segments

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

bool IterationDetector::end_segment() {
  if (is_segment_empty_) return false;
  is_segment_empty_ = true;
  segment_hashes_.push_back(std::exchange(segment_hash_, iteration::kEmptySignature));
  iteration_hash_ = iteration::combine_signatures(iteration_hash_, segment_hashes_.back());
  if (segment_hashes_.size() > 2 * kLongestPeriod) segment_hashes_.erase(segment_hashes_.begin());
  return ++segment_in_iteration_ >= segments_per_iteration_;
}

void IterationDetector::find_period() {
  const auto end = segment_hashes_.end();
  for (size_t period = 1; 2 * period <= segment_hashes_.size() && period <= kLongestPeriod;
       ++period) {
    const auto length = static_cast<ptrdiff_t>(period);
    if (!std::equal(end - length, end, end - 2 * length)) continue;
    segments_per_iteration_ = static_cast<int64_t>(period);
    return;
  }
}

void IterationDetector::start_iteration(bool is_complete) {
  if (is_complete) previous_iteration_hash_ = iteration_hash_;
  iteration_hash_ = iteration::kEmptySignature;
  segment_hash_ = iteration::kEmptySignature;
  is_segment_empty_ = true;
  segment_in_iteration_ = 0;
  op_count_ = 0;
}

}  // namespace teraio::learn
