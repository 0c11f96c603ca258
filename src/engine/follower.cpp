#include "engine/follower.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/signature.h"

namespace teraio::engine {
namespace {

uint64_t hash_window(std::span<const uint64_t> window) {
  uint64_t hash = kEmptySignature;
  for (const uint64_t signature : window) hash = combine_signatures(hash, signature);
  return hash;
}

}  // namespace

void Follower::follow(std::vector<uint64_t> signatures) {
  signatures_ = std::move(signatures);
  index_windows();
  start_iteration();
}

void Follower::index_windows() {
  window_ends_.clear();
  for (size_t end = kWindow; end <= signatures_.size(); ++end) {
    const std::span window(signatures_.data() + end - kWindow, kWindow);
    const auto [entry, is_new] =
        window_ends_.try_emplace(hash_window(window), static_cast<trace::OpIndex>(end));
    if (!is_new) entry->second = kLost;
  }
}

void Follower::start_iteration() {
  next_ = signatures_.empty() ? kLost : 0;
  recent_count_ = 0;
  deviated_ = false;
}

trace::OpIndex Follower::advance(uint64_t signature) {
  if (next_ != kLost && next_ < static_cast<trace::OpIndex>(signatures_.size()) &&
      signatures_[static_cast<size_t>(next_)] == signature) {
    return next_++;
  }
  if (signatures_.empty()) return kLost;
  if (next_ != kLost) {
    ++deviation_count_;
    deviated_ = true;
    next_ = kLost;
    recent_count_ = 0;
  }
  std::rotate(recent_.begin(), recent_.begin() + 1, recent_.end());
  recent_.back() = signature;
  recent_count_ = std::min(recent_count_ + 1, kWindow);
  next_ = find_again();
  return next_ == kLost ? kLost : next_ - 1;
}

trace::OpIndex Follower::find_again() {
  if (recent_count_ < kWindow) return kLost;
  const auto found = window_ends_.find(hash_window(recent_));
  return found == window_ends_.end() ? kLost : found->second;
}

}  // namespace teraio::engine
