// CUDA's calls of stream-ordered memory pools.
#include <cuda_runtime_api.h>

#include "testing/cuda_emulation/machine.h"

namespace {

using namespace teraio::testing::emulated_cuda;

MemoryPool& pool_behind(cudaMemPool_t handle) { return *reinterpret_cast<MemoryPool*>(handle); }

}  // namespace

extern "C" {

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return call([&](Machine& machine, Lock&) {
    *pool = reinterpret_cast<cudaMemPool_t>(&machine.pools.default_pool(device));
    return cudaSuccess;
  });
}

cudaError_t cudaMallocAsync(void** memory, size_t size_bytes, cudaStream_t stream) {
  return call_with_stream(stream, [&](Machine& machine, Lock& lock, Stream& target) {
    MemoryPool& pool = machine.pools.default_pool(target.device);
    *memory = machine.pools.allocate(pool, size_bytes, lock);
    return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  return call_with_stream(stream, [&](Machine& machine, Lock& lock, Stream& target) {
    return machine.pools.release(memory, target, lock);
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t kept_bytes) {
  return call([&](Machine& machine, Lock&) {
    machine.pools.trim(pool_behind(pool), kept_bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return call([&](Machine&, Lock&) {
    const MemoryPool& pool = pool_behind(handle);
    auto* bytes = static_cast<uint64_t*>(value);
    switch (attribute) {
      case cudaMemPoolAttrReleaseThreshold:
        *bytes = pool.release_threshold_bytes;
        break;
      case cudaMemPoolAttrReservedMemCurrent:
        *bytes = pool.reserved_bytes;
        break;
      case cudaMemPoolAttrReservedMemHigh:
        *bytes = pool.reserved_peak_bytes;
        break;
      case cudaMemPoolAttrUsedMemCurrent:
        *bytes = pool.used_bytes;
        break;
      case cudaMemPoolAttrUsedMemHigh:
        *bytes = pool.used_peak_bytes;
        break;
      default:
        *static_cast<int*>(value) = 1;  // what may be reused: everything
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return call([&](Machine&, Lock&) {
    MemoryPool& pool = pool_behind(handle);
    if (attribute == cudaMemPoolAttrReleaseThreshold)
      pool.release_threshold_bytes = *static_cast<uint64_t*>(value);
    if (attribute == cudaMemPoolAttrReservedMemHigh) pool.reserved_peak_bytes = pool.reserved_bytes;
    if (attribute == cudaMemPoolAttrUsedMemHigh) pool.used_peak_bytes = pool.used_bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) {
  return cudaSuccess;
}

}  // extern "C"
