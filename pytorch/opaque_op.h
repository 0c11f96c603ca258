// OpaqueOp: compiled code that runs as one op.
//
// The kernels of torch.compile's Inductor use raw pointers and call no operator. An OpaqueOp around
// a compiled graph restores the graph's inputs and pins them until the graph has run. Operators
// that the graph calls are part of the OpaqueOp. Inside another op, the OpaqueOp only pins. On
// another stream than the session's, the graph is ordered and its tensors are kept like an op's.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "active_session.h"
#include "op_info.h"

namespace teraio::pytorch {

// Threads: one thread creates, ends and destroys it, without the runtime's lock. Without a session
// it has no effect. While a graph is captured it pins the inputs permanently and does nothing else.
class OpaqueOp {
 public:
  // `written` holds the indices of the inputs that the code changes. Raises torch.OutOfMemoryError
  // when the budget has no room for the inputs, and RuntimeError when one cannot be restored. Keeps
  // no reference to the inputs, so the code may free them early.
  OpaqueOp(const std::string& name, const std::vector<at::Tensor>& inputs,
           const std::vector<size_t>& written);
  // Ends the op when end() was not called, because the code failed.
  ~OpaqueOp();
  OpaqueOp(const OpaqueOp&) = delete;
  OpaqueOp& operator=(const OpaqueOp&) = delete;

  // Ends the op, whose results are `results`. Later calls have no effect.
  void end(const std::vector<at::Tensor>& results);

 private:
  void pin_inputs(const std::vector<at::Tensor>& inputs);
  void hold_inputs();
  void finish();

  std::shared_ptr<ActiveSession> session_;  // null: not in a session, or ended
  const OpInfo& info_;  // valid until the process ends: a recording refers to its name
  engine::OpFrame frame_;
  engine::OpSignature signature_;
  bool is_outermost_ = false;
  bool is_elsewhere_ = false;  // on another stream than the session's
};

// A callback that a library runs at any time on any thread, such as that of a Future. The tensors
// that its operators use are restored and stay pinned until it ends. The runtime does not record
// the operators, because they may run at another point of the next iteration. Without a session,
// and in a dry run, the object has no effect.
class CallbackOps {
 public:
  CallbackOps();
  ~CallbackOps() { end(); }
  CallbackOps(const CallbackOps&) = delete;
  CallbackOps& operator=(const CallbackOps&) = delete;

  // Ends the callback, on the thread that created this object. Later calls have no effect.
  void end();

 private:
  std::shared_ptr<ActiveSession> session_;  // null: not in a session, or ended
  bool was_observed_ = false;
  bool is_outermost_ = false;
};

}  // namespace teraio::pytorch
