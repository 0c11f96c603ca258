// PinnedMemory: the host memory that the emulated devices can address, under a limit.
//
// Threads: one at a time (the machine's lock).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "testing/cuda_emulation/address_ranges.h"

namespace teraio::testing::emulated_cuda {

class PinnedMemory {
 public:
  explicit PinnedMemory(size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // cudaHostAlloc and cudaFreeHost. Null: beyond the limit, or the system has none.
  char* allocate(size_t size_bytes);
  bool is_allocation(const void* memory) const;
  void release(void* memory);

  // cudaHostRegister and cudaHostUnregister, of memory that the caller owns.
  cudaError_t add(void* memory, size_t size_bytes);
  // Null: not registered.
  bool is_registered(const void* memory) const;
  size_t size_bytes(const void* memory) const;
  void remove(void* memory);

  // How much of [begin, begin + size_bytes) is pinned. A copy that leaves a pinned region, or goes
  // from one to the next, is an error to the driver.
  enum class Share { kNone, kAll, kPart };
  Share share(const void* begin, size_t size_bytes) const;

 private:
  struct Use {
    bool is_allocation;
  };
  bool take_bytes(size_t size_bytes);

  const size_t limit_bytes_;
  size_t used_bytes_ = 0;
  RangesInUse<Use> in_use_;
};

}  // namespace teraio::testing::emulated_cuda
