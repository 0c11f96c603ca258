// OpaqueOp: compiled code that runs as one op.
//
// The kernels of torch.compile's inductor use raw pointers and pass no operator. A OpaqueOp around
// a compiled graph brings its inputs back and keeps all of them until the graph has run; operators
// that the graph calls are parts of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "active_session.h"
#include "op_info.h"

namespace teraio::pytorch {

// Threads: made and ended by one thread.
class OpaqueOp {
 public:
  // `written`: indices of the inputs that the code changes. Raises torch.OutOfMemoryError when the
  // budget does not hold the inputs. Keeps no reference to them: the code may free them early.
  OpaqueOp(const std::string& name, const std::vector<at::Tensor>& inputs,
           const std::vector<size_t>& written);
  // Ends it when end() has not: the code has failed.
  ~OpaqueOp();
  OpaqueOp(const OpaqueOp&) = delete;
  OpaqueOp& operator=(const OpaqueOp&) = delete;

  void end(const std::vector<at::Tensor>& results);

 private:
  void pin_inputs(const std::vector<at::Tensor>& inputs);
  void hold_inputs();
  void finish();

  ActiveSession* session_;
  const OpInfo& info_;  // of the process's life: a recording refers to its name
  engine::OpFrame frame_;
  uint64_t signature_ = 0;
  bool is_outermost_ = false;
};

// A callback that a library runs on any thread, when it likes: a Future's. What its operators use
// comes back and stays until it ends, but they are no part of the order of ops: they may come in
// another one the next time.
class CallbackOps {
 public:
  CallbackOps();
  ~CallbackOps() { end(); }
  CallbackOps(const CallbackOps&) = delete;
  CallbackOps& operator=(const CallbackOps&) = delete;

  // By the thread that made it. No effect when it has been done before.
  void end();

 private:
  ActiveSession* session_;
  bool was_observed_ = false;
  bool is_outermost_ = false;
};

}  // namespace teraio::pytorch
