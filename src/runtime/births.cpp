#include "runtime/births.h"

#include <algorithm>

#include "engine/thread_tag.h"

namespace teraio::runtime {

void Births::add(engine::LiveTensor& tensor) {
  tensor.birth.thread = engine::thread_tag();
  tensors_.push_back(&tensor);
  bytes_ += tensor.size_bytes;
  peak_bytes_ = std::max(peak_bytes_, bytes_);
}

void Births::remove(const engine::LiveTensor& tensor) {
  const auto found = std::find(tensors_.rbegin(), tensors_.rend(), &tensor);
  if (found == tensors_.rend()) return;
  bytes_ -= tensor.size_bytes;
  tensors_.erase(std::next(found).base());
}

// Other threads may be inside their ops, so their births stay in the list.
std::span<engine::LiveTensor* const> Births::put_own_first() {
  const auto is_mine = [tag = engine::thread_tag()](engine::LiveTensor* t) {
    return t->birth.thread == tag;
  };
  const auto others = std::find_if_not(tensors_.begin(), tensors_.end(), is_mine);
  if (others == tensors_.end()) return tensors_;
  return {tensors_.begin(), std::stable_partition(others, tensors_.end(), is_mine)};
}

void Births::remove_first(size_t count) {
  tensors_.erase(tensors_.begin(), tensors_.begin() + static_cast<ptrdiff_t>(count));
}

int64_t Births::take_workspace_bytes() {
  const int64_t workspace_bytes = peak_bytes_ - bytes_;
  bytes_ = 0;
  peak_bytes_ = 0;
  return workspace_bytes;
}

}  // namespace teraio::runtime
