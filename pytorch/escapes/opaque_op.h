// OpaqueOp: compiled code that runs as one op.
//
// Code that torch.compile's Inductor generates uses raw pointers and calls no operator. An OpaqueOp
// around such code restores the tensors that it names and pins them until it has run. Operators
// that the code calls are part of the OpaqueOp. Inside another op, the OpaqueOp only pins. On
// another stream than the session's, the code is ordered and its tensors are kept like an op's.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string>

#include "op_info.h"
#include "storages/active_session.h"

namespace teraio::pytorch {

// Returns the information about an op with this name that is none of the dispatcher's. It lives
// until the process ends. `completes_results` counts the first time. Threads: any; takes a lock.
const OpInfo& opaque_op_info(const std::string& name, bool completes_results = true);

// A tensor that an op names. The caller keeps it alive while it constructs an OpaqueOp.
struct OpaqueInput {
  const at::Tensor* tensor = nullptr;
  bool is_write = false;  // the op changes the bytes
};

// Threads: one thread creates, ends and destroys it, without the runtime's lock and without the
// GIL. Without a session it has no effect. While a graph is captured it pins the inputs
// permanently, or keeps them in place, and does nothing else.
class OpaqueOp {
 public:
  // `info` is of opaque_op_info(). Raises torch.OutOfMemoryError when the budget has no room for
  // the inputs, and RuntimeError when one cannot be restored. Keeps no reference to the inputs, so
  // the code may free them early.
  OpaqueOp(const OpInfo& info, std::span<const OpaqueInput> inputs);
  // Ends the op when end() was not called, because it has no results or the code failed.
  ~OpaqueOp();
  OpaqueOp(const OpaqueOp&) = delete;
  OpaqueOp& operator=(const OpaqueOp&) = delete;

  // Ends the op, whose results are `results`. Later calls have no effect.
  void end(std::span<const at::Tensor> results);

 private:
  void pin_inputs(std::span<const OpaqueInput> inputs);
  void hold_inputs();
  void begin_outermost();
  void finish();

  std::shared_ptr<ActiveSession> session_;  // null: not in a session, or ended
  const OpInfo& info_;         // valid until the process ends: a recording refers to its name
  engine::OpFrame own_frame_;  // inside another op
  engine::OpFrame* frame_ = &own_frame_;
  engine::OpFacts facts_;
  iteration::OpSignature signature_;
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
