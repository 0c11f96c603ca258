#include "engine/prefetch_queue.h"

#include <algorithm>

namespace teraio::engine {

void PrefetchQueue::add(LiveTensor& tensor, int64_t deadline) {
  tensor.planned.prefetch_deadline = deadline;
  const auto place = std::upper_bound(
      tensors_.begin(), tensors_.end(), &tensor, [](const LiveTensor* a, const LiveTensor* b) {
        return a->planned.prefetch_deadline < b->planned.prefetch_deadline;
      });
  tensors_.insert(place, &tensor);
}

void PrefetchQueue::remove(const LiveTensor& tensor) { std::erase(tensors_, &tensor); }

}  // namespace teraio::engine
