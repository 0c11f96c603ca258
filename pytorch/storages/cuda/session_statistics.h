// The memory of sessions on a GPU, in the terms of PyTorch's caching allocator, whose statistics
// torch.cuda.memory_allocated() and others report.
//
// Threads: any.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>
#include <mutex>

namespace teraio::pytorch {

class SessionStatistics {
 public:
  // Those of the process for this GPU. They live until it ends.
  static SessionStatistics& of_device(int64_t ordinal);

  // What a session has allocated and what it holds changes by so much.
  void add(int64_t allocated_bytes, int64_t held_bytes);
  // Adds them to those of the caching allocator. Peaks are the sum of both peaks, which may be at
  // different times: at least the true peak.
  void add_to(c10::CachingDeviceAllocator::DeviceStats& stats) const;
  void reset_peaks();
  void reset_accumulated();

 private:
  mutable std::mutex mutex_;
  c10::CachingAllocator::Stat allocated_;
  c10::CachingAllocator::Stat held_;
};

}  // namespace teraio::pytorch
