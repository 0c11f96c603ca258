// Follower: tells where in a recorded iteration the running program is.
//
// It follows while every op is the one that the sequence has at the next place. An op that differs
// is a deviation. The program then is where its last ops occur in the sequence, which has to be
// shown by more ops the farther that is from where the program left:
//
//   ops since the deviation              enough within kNear ops      enough anywhere else
//   one op, elsewhere four times as far           1                           -
//   the last ops, in this order                   2                           4
//
// Of several such places it takes the nearest one after the place where the program left, and if
// there is none, the nearest one before. So an op that a program has now and then costs itself.
//
// Threads: under the lock of its owner.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "iteration/op_sequence.h"

namespace teraio::iteration {

class Follower {
 public:
  static constexpr trace::OpIndex kNear = 64;

  // Follows the sequence from `next` on. An empty one has no places, and null stands for it.
  void follow(std::shared_ptr<const OpSequence> sequence, trace::OpIndex next = 0);

  // The iteration begins: the next op is expected to be op 0.
  void start_iteration();

  // An op begins. Returns its place, or kLost.
  trace::OpIndex advance(uint64_t structure) {
    if (next_ < size_ && sequence_->at(next_) == structure && !is_lost_) return next_++;
    return size_ == 0 ? kLost : deviate(structure);
  }
  // Whether the op is the one that advance() expects.
  bool expects(uint64_t structure) const {
    return !is_lost_ && next_ < size_ && sequence_->at(next_) == structure;
  }

  bool is_following() const { return size_ > 0 && !is_lost_; }
  // The place that the last op with a place is followed by.
  trace::OpIndex next() const { return next_; }
  bool has_deviated() const { return deviated_; }  // in this iteration
  // True when the last iteration ended where it should and never deviated.
  bool is_exact_end() const { return size_ > 0 && next_ == size_ && !deviated_; }
  int64_t deviation_count() const { return deviation_count_; }

 private:
  static constexpr size_t kFarMatches = 4;

  trace::OpIndex deviate(uint64_t structure);
  trace::OpIndex find_again(uint64_t structure) const;
  bool is_shown(trace::OpIndex place, std::span<const trace::OpIndex> places) const;
  bool is_alone_within(trace::OpIndex reach, std::span<const trace::OpIndex> places) const;
  size_t matching_ops(trace::OpIndex place) const;

  std::shared_ptr<const OpSequence> sequence_;
  trace::OpIndex size_ = 0;
  trace::OpIndex next_ = 0;
  bool is_lost_ = false;
  bool deviated_ = false;
  std::array<uint64_t, kFarMatches> recent_ = {};  // since the deviation, newest last
  size_t recent_count_ = 0;
  int64_t deviation_count_ = 0;
};

}  // namespace teraio::iteration
