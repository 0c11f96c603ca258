// libnvidia-ml.so.1, as far as PyTorch's allocator asks for it when memory has run out, and the
// memory in use of a device. Only this process is known: the memory of others is not counted.
//
// The declarations are those of nvml.h, which the PyTorch wheel does not bring.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" {

using nvmlReturn_t = int;
using nvmlDevice_t = void*;
constexpr nvmlReturn_t kSuccess = 0;
constexpr nvmlReturn_t kNotSupported = 3;

struct nvmlMemory_t {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct nvmlProcessInfo_t {
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId;
  unsigned computeInstanceId;
};

nvmlReturn_t nvmlInit_v2() { return kSuccess; }
nvmlReturn_t nvmlShutdown() { return kSuccess; }

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = CUDART_VERSION;
  return kSuccess;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  int device_count = 0;
  cudaGetDeviceCount(&device_count);
  *count = static_cast<unsigned>(device_count);
  return kSuccess;
}

// A handle is one more than the device's number.
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  *device = reinterpret_cast<nvmlDevice_t>(static_cast<uintptr_t>(index) + 1);
  return kSuccess;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* address, nvmlDevice_t* device) {
  unsigned domain = 0;
  unsigned bus = 1;
  std::sscanf(address, "%x:%x", &domain, &bus);
  return nvmlDeviceGetHandleByIndex_v2(bus - 1, device);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  int current = 0;
  cudaGetDevice(&current);
  cudaSetDevice(static_cast<int>(reinterpret_cast<uintptr_t>(device)) - 1);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  cudaSetDevice(current);
  *memory = {total_bytes, free_bytes, total_bytes - free_bytes};
  return kSuccess;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* count,
                                                  nvmlProcessInfo_t* processes) {
  nvmlMemory_t memory = {};
  nvmlDeviceGetMemoryInfo(device, &memory);
  if (processes != nullptr && *count > 0)
    processes[0] = {static_cast<unsigned>(getpid()), memory.used, 0, 0};
  *count = 1;
  return kSuccess;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t, unsigned, void*) {
  return kNotSupported;
}
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t, unsigned, void*) {
  return kNotSupported;
}
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t, void*) { return kNotSupported; }

}  // extern "C"
