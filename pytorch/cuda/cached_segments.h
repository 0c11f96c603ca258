// CachedSegments: which pieces of a GPU's memory PyTorch's caching allocator has from CUDA, as far
// as a session's blocks lie in them, for who registers memory with a library for I/O.
//
// The allocator gives a segment back to CUDA (cudaFree) when it likes: empty_cache(), or when it
// has run out. It says so before, to a trace tracker, under its lock; MemorySegments is made for
// that. ProcessGroupNCCL registers its buffers in the same way. Segments that grow and shrink
// (expandable_segments) are never told of: their memory is gone when the tracker hears of it.
#pragma once

#include <c10/core/Device.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>

#include "device/memory_segments.h"

namespace teraio::pytorch {

// Lives as long as the process: a tracker is never detached.
class CachedSegments {
 public:
  explicit CachedSegments(c10::DeviceIndex ordinal) : ordinal_(ordinal) {}
  CachedSegments(const CachedSegments&) = delete;
  CachedSegments& operator=(const CachedSegments&) = delete;

  // From the first call on they are kept; `allocator` is PyTorch's own. nullptr: one that does not
  // tell of its segments. One thread.
  device::MemorySegments* follow(c10::cuda::CUDACachingAllocator::CUDAAllocator& allocator);
  // Of `allocator`, which has just given it.
  void note_block(c10::cuda::CUDACachingAllocator::CUDAAllocator& allocator, void* block);

 private:
  void on_trace(const c10::cuda::CUDACachingAllocator::TraceEntry& entry);

  const c10::DeviceIndex ordinal_;
  device::MemorySegments segments_;
  std::atomic<bool> is_following_ = false;
  std::atomic<bool> has_expandable_ = false;
};

}  // namespace teraio::pytorch
