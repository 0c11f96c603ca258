// ObservedThread: what the observer knows about a thread and the op that it runs, and the switch
// that turns the observer on for a thread.
//
// Threads: each has its own.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/use.h"
#include "replay/op_capture.h"
#include "running_op.h"
#include "storages/active_session.h"

namespace teraio::pytorch {

// The name of the dispatch key on which the observer stands. Operators of higher order, which are
// Python code and have no fallbacks, must let it through.
std::string_view observer_dispatch_key();

// Turns the observer on or off for the calling thread. Autograd's threads take over the setting of
// the thread that calls backward.
void observe_this_thread(bool is_on);
bool is_this_thread_observed();

// Turns the observer off for the calling thread while the object lives.
class UnobservedThread {
 public:
  UnobservedThread() : was_observed_(is_this_thread_observed()) { observe_this_thread(false); }
  ~UnobservedThread() { observe_this_thread(was_observed_); }
  UnobservedThread(const UnobservedThread&) = delete;
  UnobservedThread& operator=(const UnobservedThread&) = delete;

 private:
  const bool was_observed_;
};

// False inside the dispatch of a wrapper, such as a DTensor: it calls ops on the tensors inside,
// which do not reach the observer.
bool is_observer_reached();

// The outermost op of a thread. Its frame is reused, so that an op allocates nothing.
struct ObservedThread : RunningOp {
  engine::OpFrame frame;
  std::vector<engine::LiveTensor*> nested_uses;  // scratch space for one nested op
  bool has_run_collective = false;               // inside `op`
  ThreadPlace place;                             // where `op` was called; of sessions with streams
  std::unique_ptr<OpCapture> capture;            // of `op`; null: nobody wants to run it again

  // Whether the thread captures a graph. Outside of an op, notes the place of the next one.
  bool is_capturing(const ActiveSession& session) {
    if (!session.has_streams) return false;
    if (op != nullptr) return session.backend->is_capturing();
    place = session.backend->place_of_this_thread();
    return place.is_capturing;
  }

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

ObservedThread& make_this_thread();

// Costs one access: one to a thread-local object that has a constructor costs three calls. Only
// make_this_thread() sets known_running_op.
inline ObservedThread& this_thread() {
  RunningOp* running = known_running_op;
  return running != nullptr ? static_cast<ObservedThread&>(*running) : make_this_thread();
}

}  // namespace teraio::pytorch
