// CUDA's calls that allocate and pin memory, and tell what memory is.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "testing/cuda_emulation/machine.h"

namespace {

using namespace teraio::testing::emulated_cuda;

// A copy that still uses the memory would read or write what the host has let go of. Hardware
// does so silently; the emulation ends the program.
void refuse_while_in_use(Machine& machine, const void* memory) {
  const auto* begin = static_cast<const char*>(memory);
  const char* user = machine.executor.user_of(begin, machine.pinned.size_bytes(memory));
  if (user == nullptr) return;
  std::fprintf(stderr, "emulated CUDA: VIOLATION: cudaHostUnregister(%p) while a %s is pending\n",
               memory, user);
  std::abort();
}

}  // namespace

extern "C" {

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return call([&](Machine& machine, Lock&) {
    *total_bytes = machine.memory.total_bytes();
    *free_bytes = *total_bytes - machine.memory.used_bytes(current_device);
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** memory, size_t size_bytes) {
  return unsafe_call([&](Machine& machine, Lock&) {
    machine.calls.add("cudaMalloc");
    *memory = size_bytes == 0 ? nullptr : machine.memory.allocate(current_device, size_bytes);
    return size_bytes > 0 && *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  return unsafe_call([&](Machine& machine, Lock& lock) {
    machine.calls.add("cudaFree");
    const auto device = machine.memory.device_of_allocation(memory);
    if (!device) return cudaErrorInvalidValue;
    machine.executor.wait_for_device(*device, lock);
    machine.memory.release(static_cast<char*>(memory));
    return machine.executor.failure();
  });
}

cudaError_t cudaHostAlloc(void** memory, size_t size_bytes, unsigned) {
  return unsafe_call([&](Machine& machine, Lock&) {
    *memory = machine.pinned.allocate(size_bytes);
    return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaMallocHost(void** memory, size_t size_bytes) {
  return cudaHostAlloc(memory, size_bytes, cudaHostAllocDefault);
}

// Waits for the devices, as the driver does.
cudaError_t cudaFreeHost(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  return unsafe_call([&](Machine& machine, Lock& lock) {
    if (!machine.pinned.is_allocation(memory)) return cudaErrorInvalidValue;
    for (int32_t device = 0; device < machine.settings.device_count; ++device)
      machine.executor.wait_for_device(device, lock);
    machine.pinned.release(memory);
    return machine.executor.failure();
  });
}

cudaError_t cudaHostRegister(void* memory, size_t size_bytes, unsigned) {
  return unsafe_call([&](Machine& machine, Lock&) {
    if (!machine.settings.registers_host) return cudaErrorNotSupported;
    return machine.pinned.add(memory, size_bytes);
  });
}

cudaError_t cudaHostUnregister(void* memory) {
  return unsafe_call([&](Machine& machine, Lock&) {
    if (!machine.pinned.is_registered(memory)) return cudaErrorHostMemoryNotRegistered;
    refuse_while_in_use(machine, memory);
    machine.pinned.remove(memory);
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return call([&](Machine& machine, Lock&) {
    *attributes = {};
    void* const same = const_cast<void*>(address);
    const auto device = machine.memory.device_of(address);
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    if (device) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->device = *device;
      attributes->devicePointer = same;
      return cudaSuccess;
    }
    attributes->hostPointer = same;
    if (machine.pinned.share(address, 1) == PinnedMemory::Share::kNone) return cudaSuccess;
    attributes->type = cudaMemoryTypeHost;
    attributes->device = 0;
    attributes->devicePointer = same;
    return cudaSuccess;
  });
}

}  // extern "C"
