// ObservedThread: what the observer knows about a thread and the op that it runs.
//
// Threads: each has its own.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/use.h"
#include "op_capture.h"
#include "op_info.h"

namespace teraio::pytorch {

// The outermost op of a thread. Its frame is reused, so that an op allocates nothing.
struct ObservedThread {
  engine::OpFrame frame;
  std::vector<engine::LiveTensor*> nested_uses;  // scratch space for one nested op
  const OpInfo* op = nullptr;
  bool is_uncaptured = false;          // `op` is an operator that no graph captures
  bool has_run_collective = false;     // inside `op`
  std::unique_ptr<OpCapture> capture;  // of `op`; null: nobody wants to run it again

  // Returns whether a nested op needs no pin of its own. A write needs one unless the outermost op
  // writes the tensor too, because the runtime must learn that the bytes change.
  bool has_pinned(const engine::LiveTensor* tensor, bool is_write) const {
    const auto used = std::find_if(frame.uses.begin(), frame.uses.end(),
                                   [&](const engine::Use& use) { return use.tensor == tensor; });
    if (used != frame.uses.end() && (used->is_write || !is_write)) return true;
    return !is_write && std::any_of(frame.nested_uses.begin(), frame.nested_uses.end(),
                                    [&](const engine::Use& use) { return use.tensor == tensor; });
  }
};

// Null until make_this_thread() has been called.
extern constinit thread_local ObservedThread* known_thread;
ObservedThread& make_this_thread();

// Costs one access: one to a thread-local object that has a constructor costs three calls.
inline ObservedThread& this_thread() {
  ObservedThread* thread = known_thread;
  return thread != nullptr ? *thread : make_this_thread();
}

}  // namespace teraio::pytorch
