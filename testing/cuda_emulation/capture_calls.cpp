// CUDA's calls of stream capture and graphs.
#include <cuda_runtime_api.h>

#include <utility>

#include "testing/cuda_emulation/machine.h"

namespace {

using namespace teraio::testing::emulated_cuda;

cudaStreamCaptureStatus status_of(const Stream& stream) {
  if (stream.capture == nullptr) return cudaStreamCaptureStatusNone;
  return stream.capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                    : cudaStreamCaptureStatusActive;
}

// cudaGraph_t and cudaGraphExec_t are both a Graph.
template <typename Handle>
Graph* graph_behind(Handle handle) {
  return reinterpret_cast<Graph*>(handle);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call_with_stream(stream, [&](Machine& machine, Lock&, Stream& target) {
    return machine.captures.begin(target, mode);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call_with_stream(stream, [&](Machine& machine, Lock&, Stream& target) {
    Graph* captured = nullptr;
    const cudaError_t error = machine.captures.end(target, &captured);
    *graph = reinterpret_cast<cudaGraph_t>(captured);
    return error;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call_with_stream(stream, [&](Machine& machine, Lock&, Stream& target) {
    machine.calls.add("cudaStreamIsCapturing");
    *status = status_of(target);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* dependency_count) {
  return call_with_stream(stream, [&](Machine& machine, Lock&, Stream& target) {
    machine.calls.add("cudaStreamGetCaptureInfo");
    *status = status_of(target);
    if (id != nullptr) *id = target.capture == nullptr ? 0 : target.capture->id;
    if (graph != nullptr) *graph = nullptr;
    if (dependencies != nullptr) *dependencies = nullptr;
    if (edges != nullptr) *edges = nullptr;
    if (dependency_count != nullptr) *dependency_count = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = reinterpret_cast<cudaGraphExec_t>(new Graph(*graph_behind(graph)));
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(executable, graph, flags);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call_with_stream(stream, [&](Machine& machine, Lock& lock, Stream& target) {
    for (const Task& task : graph_behind(executable)->tasks)
      machine.executor.push(target, task, lock);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph_behind(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete graph_behind(executable);
  return cudaSuccess;
}

// Nobody reads how many there are, except to warn of an empty graph.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* node_count) {
  *node_count = graph_behind(graph)->tasks.size();
  return cudaSuccess;
}

}  // extern "C"
