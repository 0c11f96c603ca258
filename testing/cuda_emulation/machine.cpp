#include "testing/cuda_emulation/machine.h"

#include <map>

namespace teraio::testing::emulated_cuda {

thread_local int32_t current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

namespace {

// A thread's own default stream on the current device. It outlives the thread.
Stream* stream_per_thread(Machine& machine) {
  static thread_local std::map<int32_t, Stream*> streams;
  Stream*& stream = streams[current_device];
  if (stream == nullptr)
    stream = machine.executor.create_stream(current_device, cudaStreamDefault, 0);
  return stream;
}

}  // namespace

Machine& Machine::get() {
  static auto* machine = new Machine();
  return *machine;
}

Stream* find_stream(Machine& machine, cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy)
    return &machine.executor.legacy_stream(current_device);
  if (handle == cudaStreamPerThread) return stream_per_thread(machine);
  auto* stream = reinterpret_cast<Stream*>(handle);
  return machine.executor.is_stream(stream) ? stream : nullptr;
}

Event* find_event(Machine& machine, cudaEvent_t handle) {
  auto* event = reinterpret_cast<Event*>(handle);
  return machine.events.count(event) > 0 ? event : nullptr;
}

}  // namespace teraio::testing::emulated_cuda
