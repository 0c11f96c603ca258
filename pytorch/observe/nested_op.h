// Ops inside of the outermost op of a thread. They count as part of it: what they use besides is
// pinned until the outermost op ends.
#pragma once

#include <ATen/core/ivalue.h>

#include "observe/observed_thread.h"
#include "op_info.h"
#include "storages/active_session.h"

namespace teraio::pytorch {

// Pins the arguments of a nested op that is about to run. Nearly always they are resident already,
// because the outermost op of this thread has pinned or created them. A pin by an op of another
// thread does not count, because that op may end first.
//
// Threads: the one that runs the op. It must not hold the runtime's lock.
class NestedPins {
 public:
  // All outlive the object.
  NestedPins(ActiveSession& session, ObservedThread& thread, const OpInfo& info);

  // An argument; `is_write`: the op changes its bytes. Raises as throw_status() does when a tensor
  // cannot be restored.
  void visit(const c10::IValue& argument, bool is_write);
  void visit(const at::Tensor& argument, bool is_write);

 private:
  void pin_found(bool is_write);
  void pin(engine::LiveTensor* tensor, bool is_write);

  ActiveSession& session_;
  ObservedThread& thread_;
  const OpInfo& info_;
  OpCapture* capture_ = nullptr;  // of a kernel that calls the op
};

// Unpins what the thread's nested ops have used.
void unpin_nested(ActiveSession& session, ObservedThread& thread);

}  // namespace teraio::pytorch
