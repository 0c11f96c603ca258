#include "cuda/cached_segments.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

namespace teraio::pytorch {

namespace caching = c10::cuda::CUDACachingAllocator;

device::MemorySegments* CachedSegments::follow(caching::CUDAAllocator& allocator) {
  if (is_following_) return &segments_;
  if (allocator.name() != "native") return nullptr;  // cudaMallocAsync has no segments
  allocator.attachAllocatorTraceTracker(
      [this](const caching::TraceEntry& entry) { on_trace(entry); });
  is_following_ = true;
  return &segments_;
}

// The segment cannot be freed before it is added, because the block is allocated.
void CachedSegments::note_block(caching::CUDAAllocator& allocator, void* block) {
  if (!is_following_ || has_expandable_ || segments_.knows(static_cast<std::byte*>(block))) return;
  try {
    size_t size_bytes = 0;
    void* begin = allocator.getBaseAllocation(block, &size_bytes);
    segments_.add({static_cast<std::byte*>(begin), static_cast<int64_t>(size_bytes)});
  } catch (const c10::Error&) {
    has_expandable_ = true;  // the allocator refuses the call for expandable segments
  }
}

// The allocator calls this with its lock held, before cudaFree.
void CachedSegments::on_trace(const caching::TraceEntry& entry) {
  if (entry.action_ != caching::TraceEntry::SEGMENT_FREE || entry.device_ != ordinal_) return;
  const c10::cuda::CUDAGuard guard(ordinal_);
  segments_.remove(reinterpret_cast<const std::byte*>(entry.addr_));
}

}  // namespace teraio::pytorch
