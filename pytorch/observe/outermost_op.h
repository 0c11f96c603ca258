// OutermostOp: an operator call that is not nested in another observed call on the same thread.
//
//     OutermostOp outermost(session, this_thread(), info);
//     StorageWalk arguments = outermost.arguments();   // visit every argument
//     outermost.begin(arguments.signature());
//     if (outermost.wants_capture()) outermost.begin_capture(...);
//     ...                                              // run the op
//     StorageWalk results = outermost.results();       // visit every result
//     outermost.finish(...);
//
// The constructor makes it the thread's op, and the destructor ends it, also where one of the calls
// above or the op itself raises.
//
// If a collective was part of the op, the tensors that were created in it are not complete: they
// may be buffers of the library, or results whose bytes arrive later. They stay resident until an
// op uses them. So do results of a thread whose current device is another one: a gradient that
// autograd copies to the session's device gets to its next thread by its address.
//
// Threads: the one that runs the op. It must not hold the runtime's lock.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <optional>
#include <span>

#include "iteration/signature.h"
#include "observe/observed_thread.h"
#include "observe/wrapped_calls.h"
#include "op_info.h"
#include "replay/tried_ops.h"
#include "storages/active_session.h"
#include "storages/storage_walk.h"

namespace teraio::pytorch {

class OutermostOp {
 public:
  // All outlive the object. `thread` runs no op.
  OutermostOp(ActiveSession& session, ObservedThread& thread, const OpInfo& info);
  ~OutermostOp();
  OutermostOp(const OutermostOp&) = delete;
  OutermostOp& operator=(const OutermostOp&) = delete;

  StorageWalk arguments() { return {session_, thread_.frame, info_.name_hash, OpSide::kArguments}; }
  // Restores and pins the arguments. Raises as throw_status() does when it cannot.
  void begin(const iteration::OpSignature& signature);

  // Whether the op is to be captured, for running it again. If so, begin_capture() follows begin().
  bool wants_capture() const { return requests_.is_replay_wanted && !is_elsewhere_; }
  // The op's arguments are the last values of `stack`. `has_wrappers`: among them.
  void begin_capture(const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                     bool has_wrappers);
  bool is_captured() const { return thread_.capture != nullptr; }

  // The op has run.
  StorageWalk results() {
    wrapped_calls_.reset();
    return {session_, thread_.frame, 0, OpSide::kResults};
  }
  // The results have been visited. `results` are read only where the op is captured.
  void finish(std::span<const c10::IValue> results);

 private:
  bool completes_results() const;
  void end_capture(OpCapture& capture, std::span<const c10::IValue> results);
  TriedOps::Verdict try_again(const CapturedOp& captured);
  void record_this_stream();

  ActiveSession& session_;
  ObservedThread& thread_;
  const OpInfo& info_;
  const bool is_elsewhere_;
  bool has_begun_ = false;
  iteration::OpSignature signature_;
  engine::OpRequests requests_;
  engine::OpFacts facts_;
  uint64_t first_node_ = 0;  // that the op may add to a graph
  std::optional<WrappedCalls> wrapped_calls_;
};

}  // namespace teraio::pytorch
