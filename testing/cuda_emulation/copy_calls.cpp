// CUDA's copies and fills.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "testing/cuda_emulation/machine.h"

namespace {

using namespace teraio::testing::emulated_cuda;

struct CopyRequest {
  void* to;
  const void* from;
  size_t size_bytes;
  cudaMemcpyKind kind = cudaMemcpyDefault;
};

bool is_within_memory(const Machine& machine, const void* address, size_t size_bytes) {
  if (!machine.memory.is_device_address(address)) return true;
  if (machine.memory.is_allocated(address, size_bytes)) return true;
  std::fprintf(stderr, "emulated CUDA: %zu bytes at %p are not allocated\n", size_bytes, address);
  return false;
}

bool is_kind_right(const Machine& machine, const CopyRequest& copy) {
  if (copy.kind == cudaMemcpyDefault) return true;
  const bool to_device =
      copy.kind == cudaMemcpyHostToDevice || copy.kind == cudaMemcpyDeviceToDevice;
  const bool from_device =
      copy.kind == cudaMemcpyDeviceToHost || copy.kind == cudaMemcpyDeviceToDevice;
  return machine.memory.is_device_address(copy.to) == to_device &&
         machine.memory.is_device_address(copy.from) == from_device;
}

const char* name_of(bool to_device, bool from_device) {
  if (to_device) return from_device ? "copy within the device" : "copy to the device";
  return from_device ? "copy to the host" : "copy on the host";
}

// The host's side of a copy, or null for one within the device.
const void* host_side(const Machine& machine, const CopyRequest& copy) {
  if (!machine.memory.is_device_address(copy.to)) return copy.to;
  return machine.memory.is_device_address(copy.from) ? nullptr : copy.from;
}

// Pageable memory to the device: the program may change it once the call has returned.
void stage(Task& task, const CopyRequest& copy, char* to) {
  const char* from = static_cast<const char*>(copy.from);
  auto staged = std::make_shared<std::vector<char>>(from, from + copy.size_bytes);
  task.run = [staged, to] { std::memcpy(to, staged->data(), staged->size()); };
}

Unit unit_of(const Machine& machine, const CopyRequest& copy) {
  if (host_side(machine, copy) == nullptr) return Unit::kCompute;
  return machine.memory.is_device_address(copy.to) ? Unit::kCopyIn : Unit::kCopyOut;
}

// Of ranges that overlap, a GPU may copy any byte first: here the one that is wrong.
void copy_bytes(char* to, const char* from, size_t size) {
  if (to + size <= from || from + size <= to) {
    std::memcpy(to, from, size);
  } else if (to < from) {
    for (size_t i = size; i-- > 0;) to[i] = from[i];
  } else {
    for (size_t i = 0; i < size; ++i) to[i] = from[i];
  }
}

cudaError_t submit(Machine& machine, Lock& lock, Stream& stream, const CopyRequest& copy,
                   bool is_waited_for) {
  if (copy.size_bytes == 0) return cudaSuccess;
  if (!is_within_memory(machine, copy.to, copy.size_bytes)) return cudaErrorInvalidValue;
  if (!is_within_memory(machine, copy.from, copy.size_bytes)) return cudaErrorInvalidValue;
  if (!is_kind_right(machine, copy)) return cudaErrorInvalidValue;
  char* to = machine.memory.shadow(copy.to);
  const bool to_device = machine.memory.is_device_address(copy.to);
  Task task;
  task.name = name_of(to_device, machine.memory.is_device_address(copy.from));
  task.run = [to, from = machine.memory.shadow(copy.from), size = copy.size_bytes] {
    copy_bytes(to, from, size);
  };
  task.unit = unit_of(machine, copy);
  if (const void* host = host_side(machine, copy)) {
    const PinnedMemory::Share pinned = machine.pinned.share(host, copy.size_bytes);
    if (pinned == PinnedMemory::Share::kPart) return cudaErrorInvalidValue;
    if (pinned == PinnedMemory::Share::kAll) {
      task.host = static_cast<const char*>(host);
      task.host_bytes = copy.size_bytes;
    } else if (to_device) {
      stage(task, copy, to);
    } else {
      is_waited_for = true;
    }
  }
  if (is_waited_for && stream.capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  machine.executor.push(stream, std::move(task), lock);
  if (is_waited_for) machine.executor.wait_for_stream(stream, lock);
  return is_waited_for ? machine.executor.failure() : cudaSuccess;
}

cudaError_t fill(Machine& machine, Lock& lock, Stream& stream, void* to, int value,
                 size_t size_bytes) {
  if (size_bytes == 0) return cudaSuccess;
  if (!is_within_memory(machine, to, size_bytes)) return cudaErrorInvalidValue;
  Task task;
  task.name = "fill";
  task.unit = Unit::kCompute;
  char* bytes = machine.memory.shadow(to);
  task.run = [=] { std::memset(bytes, value, size_bytes); };
  machine.executor.push(stream, std::move(task), lock);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t size_bytes, cudaMemcpyKind kind) {
  return call_with_stream(nullptr, [&](Machine& machine, Lock& lock, Stream& stream) {
    return submit(machine, lock, stream, {to, from, size_bytes, kind}, true);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call_with_stream(stream, [&](Machine& machine, Lock& lock, Stream& target) {
    machine.calls.add("cudaMemcpyAsync");
    return submit(machine, lock, target, {to, from, size_bytes, kind}, false);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size_bytes,
                                cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch_bytes, const void* from,
                              size_t from_pitch_bytes, size_t width_bytes, size_t row_count,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return call_with_stream(stream, [&](Machine& machine, Lock& lock, Stream& target) {
    for (size_t row = 0; row < row_count; ++row) {
      const CopyRequest copy = {static_cast<char*>(to) + row * to_pitch_bytes,
                                static_cast<const char*>(from) + row * from_pitch_bytes,
                                width_bytes, kind};
      const cudaError_t error = submit(machine, lock, target, copy, false);
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemset(void* to, int value, size_t size_bytes) {
  return call_with_stream(nullptr, [&](Machine& machine, Lock& lock, Stream& stream) {
    return fill(machine, lock, stream, to, value, size_bytes);
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t size_bytes, cudaStream_t stream) {
  return call_with_stream(stream, [&](Machine& machine, Lock& lock, Stream& target) {
    return fill(machine, lock, target, to, value, size_bytes);
  });
}

}  // extern "C"
