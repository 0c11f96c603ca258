// Stream capture: work that is recorded instead of done, and the graphs that repeat it.
//
// A graph runs its tasks one after the other, in the order in which they were captured. That is one
// of the orders that the dependencies allow.
//
// Threads: one at a time (the machine's lock).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "testing/cuda_emulation/executor.h"

namespace teraio::testing::emulated_cuda {

struct Capture {
  uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;  // that began it
  Stream* origin = nullptr;
  std::vector<Stream*> streams;  // the origin, and those that waited for the capture's events
  bool is_invalid = false;
  std::vector<Task> tasks;
};

struct Graph {
  std::vector<Task> tasks;
};

class Captures {
 public:
  cudaError_t begin(Stream& stream, cudaStreamCaptureMode mode);
  // Hands out the graph, or null with an error.
  cudaError_t end(Stream& stream, Graph** graph);
  // Makes `stream` a part of the capture.
  void join(Stream& stream, const std::shared_ptr<Capture>& capture);

  // Whether a call that could break a capture is allowed now, for a thread in `mode`. If not, the
  // captures that forbid it become invalid.
  bool allow_unsafe_call(cudaStreamCaptureMode mode);

 private:
  std::vector<std::shared_ptr<Capture>> active_;
  uint64_t last_id_ = 0;
};

}  // namespace teraio::testing::emulated_cuda
