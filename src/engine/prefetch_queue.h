// PrefetchQueue: offloaded tensors whose prefetch has fallen due and has not started, because
// memory for it was short.
//
// The tensor with the earliest deadline comes first; of equal deadlines, the one that was added
// first.
//
// Threads: called under the engine's lock. Ownership: a tensor has to be removed before it ends.
// No call fails.
#pragma once

#include <cstdint>
#include <deque>

#include "engine/live_tensor.h"

namespace teraio::engine {

class PrefetchQueue {
 public:
  // `deadline` is counted in ops, over all iterations, and replaces an earlier one of the tensor.
  void add(LiveTensor& tensor, int64_t deadline);

  // Does nothing when the tensor is not in the queue.
  void remove(const LiveTensor& tensor);
  void clear() { tensors_.clear(); }

  bool is_empty() const { return tensors_.empty(); }
  // The queue is not empty.
  LiveTensor& first() const { return *tensors_.front(); }
  void remove_first() { tensors_.pop_front(); }

 private:
  std::deque<LiveTensor*> tensors_;
};

}  // namespace teraio::engine
