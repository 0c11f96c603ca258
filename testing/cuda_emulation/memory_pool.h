// Stream-ordered memory pools (cudaMallocAsync). Freed memory is used again once the stream that
// freed it has come to that point.
//
// Threads: one at a time (the machine's lock), which the calls that wait release meanwhile.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "testing/cuda_emulation/device_memory.h"
#include "testing/cuda_emulation/executor.h"

namespace teraio::testing::emulated_cuda {

struct MemoryPool {
  struct Free {
    char* memory;
    size_t size_bytes;
    PointPtr since;
  };
  int32_t device = 0;
  uint64_t release_threshold_bytes = 0;
  uint64_t reserved_bytes = 0;
  uint64_t reserved_peak_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t used_peak_bytes = 0;
  std::list<Free> free;
};

class MemoryPools {
 public:
  MemoryPools(const Settings& settings, DeviceMemory& memory, Executor& executor);

  MemoryPool& default_pool(int32_t device) { return default_pools_.at(device); }

  // Null: the device has too little memory, also after waiting for what is being freed.
  char* allocate(MemoryPool& pool, size_t size_bytes, Lock& lock);
  cudaError_t release(void* memory, Stream& stream, Lock& lock);
  // Gives free memory back to the device until the pool holds no more than `kept_bytes`.
  void trim(MemoryPool& pool, uint64_t kept_bytes);

 private:
  struct Use {
    MemoryPool* pool;
    size_t size_bytes;
  };
  char* reuse(MemoryPool& pool, size_t size_bytes);
  char* take(MemoryPool& pool, size_t size_bytes);

  const bool poisons_;
  DeviceMemory& memory_;
  Executor& executor_;
  std::vector<MemoryPool> default_pools_;
  std::map<void*, Use> in_use_;
};

}  // namespace teraio::testing::emulated_cuda
