// FlatLists: many lists of values in one contiguous block, for indexes that are built once.
//
// A value type. Several threads may read it at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace teraio::trace {

template <typename T>
class FlatLists {
 public:
  FlatLists() = default;

  // `visit(add)` must call add(list, value) for every value of every list. It runs twice, first to
  // count and then to fill, and must add the same values both times. Each list keeps the order in
  // which its values are added.
  template <typename Visit>
  FlatLists(size_t list_count, Visit visit) : begins_(list_count + 1) {
    visit([this](size_t list, const T&) { ++begins_[list + 1]; });
    for (size_t i = 0; i < list_count; ++i) begins_[i + 1] += begins_[i];
    values_.resize(begins_.back());
    std::vector<uint32_t> next(begins_.begin(), begins_.end() - 1);
    visit([this, &next](size_t list, const T& value) { values_[next[list]++] = value; });
  }

  // Requires list < size(). The span refers to this object.
  std::span<const T> operator[](size_t list) const {
    return {values_.data() + begins_[list], values_.data() + begins_[list + 1]};
  }
  size_t size() const { return begins_.size() - 1; }

 private:
  std::vector<uint32_t> begins_{0};
  std::vector<T> values_;
};

}  // namespace teraio::trace
