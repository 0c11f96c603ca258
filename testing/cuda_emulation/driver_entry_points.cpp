// The driver's functions that programs ask the runtime for: CUDA's virtual memory. Of all others
// every call fails.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstring>

#include "testing/cuda_emulation/machine.h"

namespace {

using namespace teraio::testing::emulated_cuda;
using Physical = DeviceMemory::Physical;

// Runs `body(memory)` under the machine's lock.
template <typename Body>
CUresult with_memory(Body body) {
  Machine& machine = Machine::get();
  const Lock lock(machine.mutex);
  return body(machine.memory);
}

// The same, counted as a call of `name`.
template <typename Body>
CUresult with_memory(const char* name, Body body) {
  Machine& machine = Machine::get();
  const Lock lock(machine.mutex);
  machine.calls.add(name);
  return body(machine.memory);
}

char* to_address(CUdeviceptr pointer) { return reinterpret_cast<char*>(pointer); }
Physical* to_physical(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<Physical*>(handle);
}

CUresult reserve_addresses(CUdeviceptr* begin, size_t size_bytes, size_t, CUdeviceptr,
                           unsigned long long) {
  return with_memory([&](DeviceMemory& memory) {
    char* found = memory.reserve_addresses(current_device, size_bytes);
    *begin = reinterpret_cast<CUdeviceptr>(found);
    return found == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

CUresult release_addresses(CUdeviceptr begin, size_t size_bytes) {
  return with_memory([&](DeviceMemory& memory) {
    memory.release_addresses(to_address(begin), size_bytes);
    return CUDA_SUCCESS;
  });
}

CUresult create_memory(CUmemGenericAllocationHandle* handle, size_t size_bytes,
                       const CUmemAllocationProp* properties, unsigned long long) {
  return with_memory("cuMemCreate", [&](DeviceMemory& memory) {
    Physical* made = memory.create_physical(properties->location.id, size_bytes);
    *handle = reinterpret_cast<CUmemGenericAllocationHandle>(made);
    return made == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

CUresult release_memory(CUmemGenericAllocationHandle handle) {
  return with_memory([&](DeviceMemory& memory) {
    memory.drop_physical(to_physical(handle));
    return CUDA_SUCCESS;
  });
}

CUresult map_memory(CUdeviceptr begin, size_t, size_t, CUmemGenericAllocationHandle handle,
                    unsigned long long) {
  return with_memory("cuMemMap", [&](DeviceMemory& memory) {
    const bool is_done = memory.map(to_address(begin), to_physical(handle));
    return is_done ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  });
}

CUresult unmap_memory(CUdeviceptr begin, size_t size_bytes) {
  return with_memory("cuMemUnmap", [&](DeviceMemory& memory) {
    const bool is_done = memory.unmap(to_address(begin), size_bytes);
    return is_done ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult set_access(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; }

CUresult granularity(size_t* size_bytes, const CUmemAllocationProp*,
                     CUmemAllocationGranularity_flags) {
  *size_bytes = Machine::get().settings.granularity_bytes;
  return CUDA_SUCCESS;
}

CUresult attribute(int* value, CUdevice_attribute which, CUdevice) {
  *value = which == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult error_string(CUresult, const char** text) {
  *text = "an error of the emulated driver";
  return CUDA_SUCCESS;
}

CUresult not_supported() { return CUDA_ERROR_NOT_SUPPORTED; }

struct EntryPoint {
  const char* name;
  void* function;
};
const EntryPoint kEntryPoints[] = {
    {"cuDeviceGetAttribute", reinterpret_cast<void*>(&attribute)},
    {"cuGetErrorString", reinterpret_cast<void*>(&error_string)},
    {"cuMemAddressReserve", reinterpret_cast<void*>(&reserve_addresses)},
    {"cuMemAddressFree", reinterpret_cast<void*>(&release_addresses)},
    {"cuMemCreate", reinterpret_cast<void*>(&create_memory)},
    {"cuMemRelease", reinterpret_cast<void*>(&release_memory)},
    {"cuMemMap", reinterpret_cast<void*>(&map_memory)},
    {"cuMemUnmap", reinterpret_cast<void*>(&unmap_memory)},
    {"cuMemSetAccess", reinterpret_cast<void*>(&set_access)},
    {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&granularity)},
};

void* find_entry_point(const char* name) {
  for (const EntryPoint& entry : kEntryPoints)
    if (std::strcmp(entry.name, name) == 0) return entry.function;
  void* preloaded = dlsym(RTLD_DEFAULT, name);
  return preloaded != nullptr ? preloaded : reinterpret_cast<void*>(&not_supported);
}

}  // namespace

// Real drivers may refuse to map memory again that has been mapped many times. From this call on,
// cuMemMap refuses what has been mapped `map_count_max` times.
extern "C" void cudaEmulatedLimitMaps(int64_t map_count_max) {
  (void)with_memory([&](DeviceMemory& memory) {
    memory.limit_maps(map_count_max);
    return CUDA_SUCCESS;
  });
}

// PyTorch refuses to start when one of the functions is missing.
extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                                        unsigned long long,
                                                        cudaDriverEntryPointQueryResult* result) {
  *function = find_entry_point(name);
  if (result != nullptr) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
