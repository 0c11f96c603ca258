// CUDA's calls of streams, without capture.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstring>
#include <string>
#include <utility>

#include "testing/cuda_emulation/launch.h"
#include "testing/cuda_emulation/machine.h"

namespace {

using namespace teraio::testing::emulated_cuda;

// The negative control: the file with this address of code has its waits forgotten.
bool forgets_waits_of(const Machine& machine, const void* caller) {
  const std::string& name = machine.settings.forgets_waits_of;
  Dl_info file;
  return !name.empty() && dladdr(caller, &file) != 0 && file.dli_fname != nullptr &&
         std::strstr(file.dli_fname, name.c_str()) != nullptr;
}

void push_wait(Machine& machine, Lock& lock, Stream& stream, const char* name, PointPtr point) {
  Task task;
  task.name = name;
  task.after = std::move(point);
  machine.executor.push(stream, std::move(task), lock);
}

cudaError_t wait_on(Machine& machine, Lock& lock, Stream& stream, const Event& event) {
  if (event.capture != nullptr) {
    machine.captures.join(stream, event.capture);
    return cudaSuccess;
  }
  if (event.point == nullptr) return cudaSuccess;
  push_wait(machine, lock, stream, "wait", event.point);
  return cudaSuccess;
}

}  // namespace

namespace teraio::testing::emulated_cuda {

int launch(void* stream, const char* name, std::function<void()> run) {
  return call_with_stream(static_cast<cudaStream_t>(stream),
                          [&](Machine& machine, Lock& lock, Stream& target) {
                            Task task;
                            task.name = name;
                            task.run = std::move(run);
                            task.unit = Unit::kCompute;
                            machine.executor.push(target, std::move(task), lock);
                            return cudaSuccess;
                          });
}

PointPtr make_point() { return std::make_shared<Point>(); }

int launch_wait(void* stream, const char* name, PointPtr point) {
  return call_with_stream(static_cast<cudaStream_t>(stream),
                          [&](Machine& machine, Lock& lock, Stream& target) {
                            push_wait(machine, lock, target, name, std::move(point));
                            return cudaSuccess;
                          });
}

void pass_point(Point& point) {
  Machine& machine = Machine::get();
  const Lock lock(machine.mutex);
  if (!point.has_passed) machine.executor.pass(point);
}

void* shadow_of(const void* device_address) { return Machine::get().memory.shadow(device_address); }

}  // namespace teraio::testing::emulated_cuda

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call([&](Machine& machine, Lock&) {
    *stream = reinterpret_cast<cudaStream_t>(
        machine.executor.create_stream(current_device, flags, priority));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call_with_stream(stream, [&](Machine& machine, Lock&, Stream& target) {
    if (target.is_legacy) return cudaErrorInvalidResourceHandle;
    machine.executor.destroy_stream(&target);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return call_with_stream(stream, [&](Machine&, Lock&, Stream& target) {
    *priority = target.priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return unsafe_call([&](Machine& machine, Lock& lock) {
    machine.calls.add("cudaStreamSynchronize");
    Stream* target = find_stream(machine, stream);
    if (target == nullptr) return cudaErrorInvalidResourceHandle;
    machine.executor.wait_for_stream(*target, lock);
    return machine.executor.failure();
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return unsafe_call([&](Machine& machine, Lock&) {
    const Stream* target = find_stream(machine, stream);
    if (target == nullptr) return cudaErrorInvalidResourceHandle;
    machine.executor.look();
    return target->queue.empty() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned) {
  const void* caller = __builtin_return_address(0);
  return call_with_stream(stream, [&](Machine& machine, Lock& lock, Stream& target) {
    machine.calls.add("cudaStreamWaitEvent");
    const Event* event = find_event(machine, handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (forgets_waits_of(machine, caller)) return cudaSuccess;
    return wait_on(machine, lock, target, *event);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return static_cast<cudaError_t>(launch(stream, "host function", [=] { function(data); }));
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data,
                                  unsigned) {
  return static_cast<cudaError_t>(
      launch(stream, "callback", [=] { function(stream, cudaSuccess, data); }));
}

}  // extern "C"
