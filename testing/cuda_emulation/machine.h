// Machine: all emulated devices of this process. One lock protects everything.
#pragma once

#include <cuda_runtime_api.h>

#include <mutex>
#include <set>

#include "testing/cuda_emulation/call_counts.h"
#include "testing/cuda_emulation/capture.h"
#include "testing/cuda_emulation/device_memory.h"
#include "testing/cuda_emulation/event.h"
#include "testing/cuda_emulation/executor.h"
#include "testing/cuda_emulation/memory_pool.h"
#include "testing/cuda_emulation/pinned_memory.h"
#include "testing/cuda_emulation/settings.h"

namespace teraio::testing::emulated_cuda {

class Machine {
 public:
  // Made at the first call and never destroyed: threads use it until the process ends.
  static Machine& get();

  const Settings settings = read_settings();
  std::mutex mutex;
  Executor executor{settings, mutex};
  DeviceMemory memory{settings};
  PinnedMemory pinned{settings.pinnable_bytes};
  MemoryPools pools{settings, memory, executor};
  Captures captures;
  std::set<Event*> events;
  CallCounts calls;
};

// The calling thread's device, its last error, and what it does to captures of other threads.
extern thread_local int32_t current_device;
extern thread_local cudaError_t last_error;
extern thread_local cudaStreamCaptureMode capture_mode;

// The stream behind a handle, or null. Default streams are those of the current device.
Stream* find_stream(Machine& machine, cudaStream_t handle);
// The event behind a handle, or null.
Event* find_event(Machine& machine, cudaEvent_t handle);

// Remembers `error` as the thread's last one, and returns it.
inline cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// A call of the runtime: `body(machine, lock)` under the lock, unless the device has failed before.
template <typename Body>
cudaError_t call(Body body) {
  Machine& machine = Machine::get();
  Lock lock(machine.mutex);
  if (machine.executor.failure() != cudaSuccess) return note(machine.executor.failure());
  return note(body(machine, lock));
}

// Likewise for a call that waits, looks or allocates, which breaks a capture.
template <typename Body>
cudaError_t unsafe_call(Body body) {
  return call([&](Machine& machine, Lock& lock) {
    if (!machine.captures.allow_unsafe_call(capture_mode)) return cudaErrorStreamCaptureUnsupported;
    return body(machine, lock);
  });
}

// Likewise for a call with a stream: `body(machine, lock, stream)`.
template <typename Body>
cudaError_t call_with_stream(cudaStream_t handle, Body body) {
  return call([&](Machine& machine, Lock& lock) {
    Stream* stream = find_stream(machine, handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(machine, lock, *stream);
  });
}

}  // namespace teraio::testing::emulated_cuda
