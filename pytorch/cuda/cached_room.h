// What PyTorch's caching allocator can give without waiting for the GPU.
//
// At its limit the allocator waits for the GPU, gives all whole segments that are free back to CUDA
// and tries once more, and raises when that does not suffice. A session at its budget would pay for
// this with every tensor for which it has to make room first.
//
// Besides, the allocator keeps blocks of up to 1 MiB in segments of their own. When larger blocks
// have filled the limit, none of these segments can be added, whatever larger blocks leave.
#pragma once

#include <c10/core/Device.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdint>

namespace teraio::pytorch {

// Returns how many bytes to ask `allocator`, PyTorch's own, for where `size_bytes` are needed and
// its limit is `limit_bytes`: more than these for a small block in a segment of larger ones. 0: it
// would raise. Another result is no promise: free blocks of other streams count, too.
//
// Threads: any; takes the allocator's lock.
int64_t bytes_to_ask_for(c10::cuda::CUDACachingAllocator::CUDAAllocator& allocator,
                         c10::DeviceIndex ordinal, int64_t size_bytes, int64_t limit_bytes);

}  // namespace teraio::pytorch
