// TransferQueue: transfers that wait for a channel, ordered by key, then by issue order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace teraio::simulate {

class TransferQueue {
 public:
  struct Entry {
    int64_t key;
    int64_t sequence;
    int32_t transfer;
  };

  void push(const Entry& entry) {
    entries_.push_back(entry);
    std::push_heap(entries_.begin(), entries_.end(), later);
  }

  // Returns the first entry for which `waiting` holds, or null. Removes the entries before it: one
  // that does not wait any more never waits again.
  template <typename Waiting>
  const Entry* front(Waiting waiting) {
    while (!entries_.empty() && !waiting(entries_.front())) {
      std::pop_heap(entries_.begin(), entries_.end(), later);
      entries_.pop_back();
    }
    return entries_.empty() ? nullptr : &entries_.front();
  }

 private:
  static bool later(const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key > b.key : a.sequence > b.sequence;
  }

  std::vector<Entry> entries_;
};

}  // namespace teraio::simulate
