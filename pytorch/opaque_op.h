// OpaqueOp: compiled code that runs as one op.
//
// The kernels of torch.compile's inductor use raw pointers and call no operator. An OpaqueOp around
// a compiled graph restores the graph's inputs and pins them until the graph has run. Operators
// that the graph calls are part of the OpaqueOp.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "active_session.h"
#include "op_info.h"

namespace teraio::pytorch {

// Threads: one thread creates and ends it.
class OpaqueOp {
 public:
  // `written` holds the indices of the inputs that the code changes. Raises torch.OutOfMemoryError
  // when the inputs exceed the budget. Keeps no reference to the inputs, so the code may free them
  // early.
  OpaqueOp(const std::string& name, const std::vector<at::Tensor>& inputs,
           const std::vector<size_t>& written);
  // Ends the op when end() was not called, because the code failed.
  ~OpaqueOp();
  OpaqueOp(const OpaqueOp&) = delete;
  OpaqueOp& operator=(const OpaqueOp&) = delete;

  void end(const std::vector<at::Tensor>& results);

 private:
  void pin_inputs(const std::vector<at::Tensor>& inputs);
  void hold_inputs();
  void finish();

  ActiveSession* session_;
  const OpInfo& info_;  // valid until the process ends: a recording refers to its name
  engine::OpFrame frame_;
  uint64_t signature_ = 0;
  bool is_outermost_ = false;
};

// A callback that a library runs at any time on any thread, such as a Future's. The tensors that
// its operators use are restored and stay pinned until it ends. The operators are not part of the
// recorded order of ops, because they may come in a different order next time.
class CallbackOps {
 public:
  CallbackOps();
  ~CallbackOps() { end(); }
  CallbackOps(const CallbackOps&) = delete;
  CallbackOps& operator=(const CallbackOps&) = delete;

  // Ends the callback. The thread that created this object calls it; later calls have no effect.
  void end();

 private:
  ActiveSession* session_;
  bool was_observed_ = false;
  bool is_outermost_ = false;
};

}  // namespace teraio::pytorch
