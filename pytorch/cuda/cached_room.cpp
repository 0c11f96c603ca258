#include "cuda/cached_room.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>

#include "base/units.h"

namespace teraio::pytorch {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;
using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::StatType;

constexpr int64_t kBlockBytes = 512;
constexpr int64_t kSmallSegmentBytes = 2 * kMiB;
constexpr int64_t kSmallestLargeBytes =
    static_cast<int64_t>(c10::CachingAllocator::kSmallSize) + kBlockBytes;
// Small blocks that are free are scattered: one fits into them if they are so many times its size.
constexpr int64_t kScatter = 8;

// The segment that the allocator takes from CUDA for a block.
int64_t segment_bytes(int64_t block_bytes) {
  if (block_bytes < kSmallestLargeBytes) return kSmallSegmentBytes;
  if (block_bytes < static_cast<int64_t>(c10::CachingAllocator::kMinLargeAlloc))
    return static_cast<int64_t>(AcceleratorAllocatorConfig::large_segment_size());
  return align_up(block_bytes, 2 * kMiB);
}

// What the allocator holds.
struct Held {
  int64_t reserved_bytes = 0;
  int64_t whole_free_bytes = 0;  // in segments without a block in use, which can be given back
  int64_t whole_free_small_bytes = 0;
  int64_t free_small_bytes = 0;

  explicit Held(const c10::CachingDeviceAllocator::DeviceStats& stats) {
    const auto free_bytes = [&](StatType type) {
      const auto of = [&](const auto& stat) { return stat[static_cast<size_t>(type)].current; };
      return of(stats.reserved_bytes) - of(stats.active_bytes);
    };
    const auto split_bytes = [&](StatType type) {
      return stats.inactive_split_bytes[static_cast<size_t>(type)].current;
    };
    reserved_bytes = stats.reserved_bytes[static_cast<size_t>(StatType::AGGREGATE)].current;
    free_small_bytes = free_bytes(StatType::SMALL_POOL);
    if (AcceleratorAllocatorConfig::use_expandable_segments()) return;  // which count no splits
    whole_free_bytes = free_bytes(StatType::AGGREGATE) - split_bytes(StatType::AGGREGATE);
    whole_free_small_bytes = free_small_bytes - split_bytes(StatType::SMALL_POOL);
  }

  // No free block of a segment of small ones is larger.
  int64_t largest_small_bytes() const { return std::min(free_small_bytes, kSmallSegmentBytes); }
};

}  // namespace

int64_t bytes_to_ask_for(caching::CUDAAllocator& allocator, c10::DeviceIndex ordinal,
                         int64_t size_bytes, int64_t limit_bytes) {
  const Held held(allocator.getDeviceStats(ordinal));
  const int64_t block_bytes = align_up(std::max<int64_t>(size_bytes, 1), kBlockBytes);
  const int64_t room_bytes = limit_bytes - segment_bytes(block_bytes);
  if (held.reserved_bytes <= room_bytes) return size_bytes;
  const bool is_small = block_bytes < kSmallestLargeBytes;
  if (is_small &&
      (held.whole_free_small_bytes > 0 || held.free_small_bytes >= kScatter * block_bytes))
    return size_bytes;
  const int64_t large_bytes = std::max(block_bytes, kSmallestLargeBytes);
  size_t largest_bytes = 1;  // for 0 the allocator would ask the driver first
  allocator.cacheInfo(ordinal, &largest_bytes);
  if (static_cast<int64_t>(largest_bytes) >= large_bytes &&
      static_cast<int64_t>(largest_bytes) > held.largest_small_bytes())
    return is_small ? large_bytes : size_bytes;
  return held.reserved_bytes - held.whole_free_bytes <= room_bytes ? size_bytes : 0;
}

}  // namespace teraio::pytorch
