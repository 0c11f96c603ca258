// CUDA's calls about devices.
#include <cuda_runtime_api.h>

#include <cstdio>

#include "testing/cuda_emulation/machine.h"

namespace {

using namespace teraio::testing::emulated_cuda;

bool is_device(int device) { return device >= 0 && device < Machine::get().settings.device_count; }

// The limits of a GPU of compute capability 9.0, as far as PyTorch reads them.
void describe_limits(cudaDeviceProp& p) {
  p.sharedMemPerBlock = size_t{48} << 10;
  p.sharedMemPerBlockOptin = size_t{227} << 10;
  p.sharedMemPerMultiprocessor = size_t{228} << 10;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  p.multiProcessorCount = 132;
  p.l2CacheSize = 50 << 20;
  p.memoryBusWidth = 5120;
  p.textureAlignment = 512;
}

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp p = {};
  std::snprintf(p.name, sizeof(p.name), "Emulated GPU");
  p.uuid.bytes[0] = static_cast<char>(device + 1);
  p.totalGlobalMem = Machine::get().settings.memory_bytes;
  p.major = 9;
  p.pciBusID = device + 1;
  p.asyncEngineCount = 3;
  p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = p.managedMemory = 1;
  p.streamPrioritiesSupported = p.cooperativeLaunch = 1;
  p.memoryPoolsSupported = p.hostRegisterSupported = 1;
  describe_limits(p);
  return p;
}

int attribute_of(const cudaDeviceProp& p, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      return p.multiProcessorCount;
    case cudaDevAttrMaxThreadsPerBlock:
      return p.maxThreadsPerBlock;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(p.sharedMemPerBlock);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(p.sharedMemPerBlockOptin);
    case cudaDevAttrComputeCapabilityMajor:
      return p.major;
    case cudaDevAttrComputeCapabilityMinor:
      return p.minor;
    case cudaDevAttrWarpSize:
      return p.warpSize;
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrHostRegisterSupported:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = Machine::get().settings.device_count;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!is_device(device)) return note(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return note(cudaErrorInvalidDevice);
  *properties = properties_of(device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!is_device(device)) return note(cudaErrorInvalidDevice);
  *value = attribute_of(properties_of(device), attribute);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  if (!is_device(device)) return note(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can_access, int, int) {
  *can_access = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }

cudaError_t cudaDeviceSynchronize() {
  return unsafe_call([](Machine& machine, Lock& lock) {
    machine.calls.add("cudaDeviceSynchronize");
    machine.executor.wait_for_device(current_device, lock);
    return machine.executor.failure();
  });
}

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

}  // extern "C"
