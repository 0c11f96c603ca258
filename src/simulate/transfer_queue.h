// TransferQueue: transfers that wait for a channel, the smallest key first, then in issue order.
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

  // The first entry for which `waiting` holds, null when there is none. Those before it are
  // forgotten: an entry that does not wait any more never waits again.
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
