// OutsideOfCapture: lets the calling thread wait, ask for events and pin memory while some thread
// captures a graph.
//
// In the global mode, PyTorch's default, such a call of any thread is an error and spoils the
// capture. What the session waits for is never part of one, so that its calls are harmless.
//
// Threads: one creates and destroys the object.
#pragma once

#include <cuda_runtime_api.h>

namespace teraio::device {

class OutsideOfCapture {
 public:
  OutsideOfCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideOfCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideOfCapture(const OutsideOfCapture&) = delete;
  OutsideOfCapture& operator=(const OutsideOfCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // then: the thread's own
};

}  // namespace teraio::device
