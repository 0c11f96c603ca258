// WrappedCalls: the calls that the dispatch of a wrapper, such as a DTensor, makes on the tensors
// inside it.
//
// PyTorch excludes the observer's key while such a dispatch runs. A callback of at::RecordFunction
// tells of the calls all the same. It can neither pin their arguments nor raise, so it serves to
// capture an op and for nothing else.
//
// Threads: the one that runs the op.
#pragma once

#include <ATen/record_function.h>

#include "replay/op_capture.h"

namespace teraio::pytorch {

// Tells `capture`, which outlives the object, of the calls that run while the object lives and
// where the observer sees none.
class WrappedCalls {
 public:
  explicit WrappedCalls(OpCapture& capture);
  ~WrappedCalls();
  WrappedCalls(const WrappedCalls&) = delete;
  WrappedCalls& operator=(const WrappedCalls&) = delete;

 private:
  const at::CallbackHandle callback_;
};

}  // namespace teraio::pytorch
