// Births: the tensors that the program has made since the last op ended, and that are alive. Those
// of a thread belong to the op that this thread ends next.
//
// Threads: under the lock of its owner. The spans are valid until the next call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/live_tensor.h"

namespace teraio::runtime {

class Births {
 public:
  // The calling thread has made the tensor.
  void add(engine::LiveTensor& tensor);
  // The tensor is about to die. Has no effect for one that is not a birth.
  void remove(const engine::LiveTensor& tensor);
  void clear() { tensors_.clear(); }

  // Those of the calling thread.
  std::span<engine::LiveTensor* const> of_this_thread() {
    return tensors_.empty() ? std::span<engine::LiveTensor* const>() : put_own_first();
  }
  // The first `count` ones, which of_this_thread() has returned, are births no more.
  void remove_first(size_t count);

  // The most bytes that births had since the last call, beyond those that are alive now.
  int64_t take_workspace_bytes();

 private:
  std::span<engine::LiveTensor* const> put_own_first();

  std::vector<engine::LiveTensor*> tensors_;
  int64_t bytes_ = 0;
  int64_t peak_bytes_ = 0;
};

}  // namespace teraio::runtime
