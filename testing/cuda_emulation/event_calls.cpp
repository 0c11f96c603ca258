// CUDA's calls of events.
#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <utility>

#include "testing/cuda_emulation/machine.h"

namespace {

using namespace teraio::testing::emulated_cuda;

// An event that was recorded in a capture has no point until its graph runs.
cudaError_t check_outside_of_capture(const Event* event) {
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  return event->capture != nullptr ? cudaErrorCapturedEvent : cudaSuccess;
}

cudaError_t record(Machine& machine, Lock& lock, Stream& stream, Event& event) {
  if (event.device != stream.device) return cudaErrorInvalidResourceHandle;
  event.capture = stream.capture;
  event.point = nullptr;
  if (stream.capture != nullptr) return cudaSuccess;
  Task task;
  task.name = "record";
  task.end = event.point = std::make_shared<Point>();
  machine.executor.push(stream, std::move(task), lock);
  return cudaSuccess;
}

cudaError_t milliseconds_between(const Event& begin, const Event& end, float* milliseconds) {
  if (((begin.flags | end.flags) & cudaEventDisableTiming) != 0)
    return cudaErrorInvalidResourceHandle;
  if (begin.point == nullptr || end.point == nullptr) return cudaErrorInvalidResourceHandle;
  if (!begin.point->has_passed || !end.point->has_passed) return cudaErrorNotReady;
  const auto between = end.point->when - begin.point->when;
  *milliseconds = std::chrono::duration<float, std::milli>(between).count();
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&](Machine& machine, Lock&) {
    auto* made = new Event();
    made->flags = flags;
    made->device = current_device;
    machine.events.insert(made);
    *event = reinterpret_cast<cudaEvent_t>(made);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

// Streams that wait for its last record go on doing so.
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return call([&](Machine& machine, Lock&) {
    Event* event = find_event(machine, handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    machine.events.erase(event);
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream, unsigned) {
  return call_with_stream(stream, [&](Machine& machine, Lock& lock, Stream& target) {
    machine.calls.add("cudaEventRecord");
    Event* event = find_event(machine, handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    return record(machine, lock, target, *event);
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return unsafe_call([&](Machine& machine, Lock&) {
    machine.calls.add("cudaEventQuery");
    const Event* event = find_event(machine, handle);
    const cudaError_t error = check_outside_of_capture(event);
    if (error != cudaSuccess) return error;
    machine.executor.look();
    const bool is_pending = event->point != nullptr && !event->point->has_passed;
    return is_pending ? cudaErrorNotReady : cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return unsafe_call([&](Machine& machine, Lock& lock) {
    machine.calls.add("cudaEventSynchronize");
    const Event* event = find_event(machine, handle);
    const cudaError_t error = check_outside_of_capture(event);
    if (error != cudaSuccess) return error;
    const PointPtr point = event->point;
    if (point != nullptr) machine.executor.wait_for(*point, lock);
    return machine.executor.failure();
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return call([&](Machine& machine, Lock&) {
    const Event* first = find_event(machine, begin);
    const Event* last = find_event(machine, end);
    if (first == nullptr || last == nullptr) return cudaErrorInvalidResourceHandle;
    return milliseconds_between(*first, *last, milliseconds);
  });
}

}  // extern "C"
