// CachedSegments: tracks the segments of PyTorch's caching allocator that contain blocks of a
// session, for code that registers GPU memory with an I/O library.
//
// The allocator may return a segment to CUDA (cudaFree) at any time: in empty_cache(), or when it
// runs out of memory. It reports this beforehand to a trace tracker, under its lock, under which
// MemorySegments::remove() may be called. ProcessGroupNCCL registers its buffers in the same way.
// Expandable segments (expandable_segments:True) are never added to MemorySegments, because their
// memory is already unmapped when the tracker is called.
#pragma once

#include <c10/core/Device.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>

#include "device/memory_segments.h"

namespace teraio::pytorch {

// The object must live until the process ends, because a tracker cannot be detached.
class CachedSegments {
 public:
  explicit CachedSegments(c10::DeviceIndex ordinal) : ordinal_(ordinal) {}
  CachedSegments(const CachedSegments&) = delete;
  CachedSegments& operator=(const CachedSegments&) = delete;

  // Starts to track the segments of `allocator`, PyTorch's own, and returns them; this object owns
  // the result. Returns null when the allocator has no segments (cudaMallocAsync). Later calls
  // return the same. Threads: one.
  device::MemorySegments* follow(c10::cuda::CUDACachingAllocator::CUDAAllocator& allocator);
  // Adds the segment of `block`, which `allocator` has just returned, unless it is known. Threads:
  // any, without the allocator's lock.
  void note_block(c10::cuda::CUDACachingAllocator::CUDAAllocator& allocator, void* block);

 private:
  void on_trace(const c10::cuda::CUDACachingAllocator::TraceEntry& entry);

  const c10::DeviceIndex ordinal_;
  device::MemorySegments segments_;
  std::atomic<bool> is_following_ = false;
  std::atomic<bool> has_expandable_ = false;
};

}  // namespace teraio::pytorch
