// Ranges of addresses: those that are in use, and those that are free.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>

namespace teraio::testing::emulated_cuda {

// Disjoint ranges in use, each with what is known of it. Threads: one at a time.
template <typename Value>
class RangesInUse {
 public:
  struct Range {
    char* begin;
    size_t size_bytes;
    Value value;
    char* end() const { return begin + size_bytes; }
  };

  void add(char* begin, size_t size_bytes, Value value) {
    ranges_[begin] = {begin, size_bytes, value};
  }
  void remove(const char* begin) { ranges_.erase(const_cast<char*>(begin)); }
  // The range that begins there, or null.
  const Range* starting_at(const void* begin) const {
    const auto found = ranges_.find(mutable_address(begin));
    return found == ranges_.end() ? nullptr : &found->second;
  }
  // The range with this address, or null.
  const Range* containing(const void* address) const {
    char* at = mutable_address(address);
    auto next = ranges_.upper_bound(at);
    if (next == ranges_.begin()) return nullptr;
    const Range& range = std::prev(next)->second;
    return at < range.end() ? &range : nullptr;
  }
  bool overlaps(const void* begin, size_t size_bytes) const {
    if (containing(begin) != nullptr) return true;
    const auto next = ranges_.lower_bound(mutable_address(begin));
    return next != ranges_.end() && next->first < static_cast<const char*>(begin) + size_bytes;
  }
  // One range, or several side by side, have all of these bytes.
  bool cover(const void* begin, size_t size_bytes) const {
    const char* const end = static_cast<const char*>(begin) + size_bytes;
    for (const char* at = static_cast<const char*>(begin); at < end;) {
      const Range* range = containing(at);
      if (range == nullptr) return false;
      at = range->end();
    }
    return true;
  }

 private:
  static char* mutable_address(const void* address) {
    return static_cast<char*>(const_cast<void*>(address));
  }
  std::map<char*, Range> ranges_;
};

// The free parts of one range. Takes the first that is large enough. Threads: one at a time.
class FreeRanges {
 public:
  FreeRanges(char* begin, size_t size_bytes) { free_[begin] = size_bytes; }

  char* take(size_t size_bytes) {
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      const auto [begin, free_bytes] = *range;
      if (free_bytes < size_bytes) continue;
      free_.erase(range);
      if (free_bytes > size_bytes) free_[begin + size_bytes] = free_bytes - size_bytes;
      return begin;
    }
    return nullptr;
  }
  void give_back(char* begin, size_t size_bytes) {
    auto range = free_.emplace(begin, size_bytes).first;
    merge_with_next(range);
    if (range != free_.begin()) merge_with_next(std::prev(range));
  }

 private:
  void merge_with_next(std::map<char*, size_t>::iterator range) {
    const auto next = std::next(range);
    if (next == free_.end() || range->first + range->second != next->first) return;
    range->second += next->second;
    free_.erase(next);
  }
  std::map<char*, size_t> free_;
};

}  // namespace teraio::testing::emulated_cuda
