// Ring: the newest values of a sequence, in memory of a fixed size that is taken when it is used.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace teraio::engine {

template <typename T>
class Ring {
 public:
  explicit Ring(size_t values_max) : values_max_(values_max) {}

  // In place of the oldest one when the ring is full.
  void add(T value) {
    if (values_.capacity() == 0) values_.reserve(values_max_);
    if (values_.size() < values_max_) {
      values_.push_back(std::move(value));
      return;
    }
    values_[oldest_] = std::move(value);
    oldest_ = oldest_ + 1 == values_max_ ? 0 : oldest_ + 1;
    has_lost_ = true;
  }

  void clear() {
    values_.clear();
    oldest_ = 0;
    has_lost_ = false;
  }

  // False: all values that were added are there.
  bool has_lost() const { return has_lost_; }
  // The oldest one first.
  std::vector<T> values() const {
    std::vector<T> values(values_.begin() + static_cast<std::ptrdiff_t>(oldest_), values_.end());
    values.insert(values.end(), values_.begin(),
                  values_.begin() + static_cast<std::ptrdiff_t>(oldest_));
    return values;
  }

 private:
  const size_t values_max_;
  std::vector<T> values_;
  size_t oldest_ = 0;
  bool has_lost_ = false;
};

}  // namespace teraio::engine
