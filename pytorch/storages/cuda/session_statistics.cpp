#include "storages/cuda/session_statistics.h"

#include <map>

namespace teraio::pytorch {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

void change(Stat& stat, int64_t bytes) {
  if (bytes > 0) stat.increase(static_cast<size_t>(bytes));
  if (bytes < 0) stat.decrease(static_cast<size_t>(-bytes));
}

void add_stat(StatArray& to, const Stat& from) {
  for (const StatType type : {StatType::AGGREGATE, StatType::LARGE_POOL}) {
    Stat& stat = to[static_cast<size_t>(type)];
    stat.current += from.current;
    stat.peak += from.peak;
    stat.allocated += from.allocated;
    stat.freed += from.freed;
  }
}

}  // namespace

SessionStatistics& SessionStatistics::of_device(int64_t ordinal) {
  static auto* mutex = new std::mutex;
  static auto* all = new std::map<int64_t, SessionStatistics>;
  const std::lock_guard lock(*mutex);
  return (*all)[ordinal];
}

void SessionStatistics::add(int64_t allocated_bytes, int64_t held_bytes) {
  const std::lock_guard lock(mutex_);
  change(allocated_, allocated_bytes);
  change(held_, held_bytes);
}

void SessionStatistics::add_to(c10::CachingDeviceAllocator::DeviceStats& stats) const {
  const std::lock_guard lock(mutex_);
  for (StatArray* of : {&stats.allocated_bytes, &stats.active_bytes, &stats.requested_bytes})
    add_stat(*of, allocated_);
  add_stat(stats.reserved_bytes, held_);
}

void SessionStatistics::reset_peaks() {
  const std::lock_guard lock(mutex_);
  allocated_.reset_peak();
  held_.reset_peak();
}

void SessionStatistics::reset_accumulated() {
  const std::lock_guard lock(mutex_);
  allocated_.reset_accumulated();
  held_.reset_accumulated();
}

}  // namespace teraio::pytorch
