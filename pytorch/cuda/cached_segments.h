// CachedSegments: tracks the segments that PyTorch's caching allocator holds from CUDA and in which
// blocks of a session lie, for code that registers GPU memory with an I/O library.
//
// The allocator may return a segment to CUDA (cudaFree) at any time: in empty_cache(), or when it
// runs out of memory. It reports this beforehand to a trace tracker, under its lock; MemorySegments
// is made for that. ProcessGroupNCCL registers its buffers in the same way. Segments that grow and
// shrink (expandable_segments) are never reported to MemorySegments, because their memory is gone
// when the tracker hears of it.
#pragma once

#include <c10/core/Device.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>

#include "device/memory_segments.h"

namespace teraio::pytorch {

// The object lives until the process ends, because a tracker cannot be detached.
class CachedSegments {
 public:
  explicit CachedSegments(c10::DeviceIndex ordinal) : ordinal_(ordinal) {}
  CachedSegments(const CachedSegments&) = delete;
  CachedSegments& operator=(const CachedSegments&) = delete;

  // Starts to track the segments of `allocator`, PyTorch's own, and returns them. Returns nullptr
  // when the allocator does not report its segments. Threads: one.
  device::MemorySegments* follow(c10::cuda::CUDACachingAllocator::CUDAAllocator& allocator);
  // Registers the segment of `block`, which `allocator` has just returned.
  void note_block(c10::cuda::CUDACachingAllocator::CUDAAllocator& allocator, void* block);

 private:
  void on_trace(const c10::cuda::CUDACachingAllocator::TraceEntry& entry);

  const c10::DeviceIndex ordinal_;
  device::MemorySegments segments_;
  std::atomic<bool> is_following_ = false;
  std::atomic<bool> has_expandable_ = false;
};

}  // namespace teraio::pytorch
