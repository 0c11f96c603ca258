// Follower: tells where in a recorded iteration the running program is.
//
// It follows while every op has the signature that the profile has at the next position. An op that
// differs is a deviation: the position is lost until the last kWindow ops occur, in this order, at
// exactly one place of the profile.
//
// Threads: under the lock of its owner.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/use.h"
#include "trace/trace.h"

namespace teraio::engine {

class Follower {
 public:
  // Follows `signatures` from their start. When they are empty, every op is lost.
  void follow(std::vector<uint64_t> signatures);

  // The iteration begins: the next op is expected to be op 0.
  void start_iteration();

  // An op begins. Returns its position, or kLost.
  trace::OpIndex advance(uint64_t signature);

  bool is_following() const { return next_ != kLost; }
  // True when the last iteration ended where it should and never deviated.
  bool is_exact_end() const {
    return next_ == static_cast<trace::OpIndex>(signatures_.size()) && !deviated_;
  }
  int64_t deviation_count() const { return deviation_count_; }

 private:
  // The number of ops that together tell where a lost program is.
  static constexpr size_t kWindow = 6;

  void index_windows();
  trace::OpIndex find_again();

  std::vector<uint64_t> signatures_;
  std::unordered_map<uint64_t, trace::OpIndex>
      window_ends_;  // hash of a window -> op after it; kLost: many
  std::array<uint64_t, kWindow> recent_ = {};
  size_t recent_count_ = 0;
  trace::OpIndex next_ = kLost;
  bool deviated_ = false;
  int64_t deviation_count_ = 0;
};

}  // namespace teraio::engine
