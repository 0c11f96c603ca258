#include "storages/cuda/caching_allocator.h"

#include <algorithm>
#include <utility>

namespace teraio::pytorch {
namespace {

constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

}  // namespace

CachingAllocator::CachingAllocator(c10::cuda::CUDACachingAllocator::CUDAAllocator& allocator,
                                   c10::DeviceIndex ordinal, int64_t memory_bytes)
    : allocator_(allocator),
      ordinal_(ordinal),
      memory_bytes_(memory_bytes),
      statistics_(SessionStatistics::of_device(ordinal)) {}

CachingAllocator::~CachingAllocator() {
  note_device_bytes(0, 0);
  lift_limit();
}

c10::CachingAllocator::Stat CachingAllocator::held() const {
  return allocator_.getDeviceStats(ordinal_).reserved_bytes[kAll];
}

int64_t CachingAllocator::held_peak_bytes() const {
  const c10::CachingAllocator::Stat stat = held();
  return stat.peak == peak_before_bytes_ ? stat.current : stat.peak;
}

// cudaMallocAsync without a limit tells a fraction that it does not take.
double CachingAllocator::programs_fraction() const {
  return fraction_before_ ? *fraction_before_
                          : std::min(allocator_.getMemoryFraction(ordinal_), 1.0);
}

int64_t CachingAllocator::common_limit_bytes() const {
  return static_cast<int64_t>(programs_fraction() * static_cast<double>(memory_bytes_));
}

void CachingAllocator::set_limit_bytes(int64_t limit_bytes) {
  if (limit_bytes >= memory_bytes_) return lift_limit();
  fraction_before_ = programs_fraction();
  const double share = static_cast<double>(limit_bytes) / static_cast<double>(memory_bytes_);
  allocator_.setMemoryFraction(std::clamp(share, 0.0, *fraction_before_), ordinal_);
}

void CachingAllocator::lift_limit() {
  if (fraction_before_) allocator_.setMemoryFraction(*fraction_before_, ordinal_);
  fraction_before_.reset();
}

// Free memory without what is in segments beside blocks in use. Expandable segments and
// cudaMallocAsync do not tell how much that is.
int64_t CachingAllocator::returnable_bytes() const {
  const c10::CachingDeviceAllocator::DeviceStats stats = allocator_.getDeviceStats(ordinal_);
  return stats.reserved_bytes[kAll].current - stats.active_bytes[kAll].current -
         stats.inactive_split_bytes[kAll].current;
}

bool CachingAllocator::give_back() {
  const int64_t returnable_bytes = this->returnable_bytes();
  if (returnable_bytes <= kept_bytes_) return false;
  const int64_t held_before_bytes = held_bytes();
  allocator_.emptyCache({0, 0});
  kept_bytes_ = this->returnable_bytes();
  return held_bytes() < held_before_bytes;
}

void CachingAllocator::note_device_bytes(int64_t allocated_bytes, int64_t held_bytes) {
  statistics_.add(allocated_bytes - std::exchange(device_allocated_bytes_, allocated_bytes),
                  held_bytes - std::exchange(device_held_bytes_, held_bytes));
}

}  // namespace teraio::pytorch
