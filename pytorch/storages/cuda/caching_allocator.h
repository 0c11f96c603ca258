// CachingAllocator: PyTorch's caching allocator beside a session's memory on the same GPU.
//
// It keeps what a session never offloads: small tensors, workspaces of libraries, tensors of other
// streams, and what was there before. Its limit is its memory fraction.
//
// Threads: one at a time; takes the allocator's lock.
#pragma once

#include <c10/core/Device.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdint>
#include <optional>

#include "device/cuda_device.h"
#include "storages/cuda/session_statistics.h"

namespace teraio::pytorch {

class CachingAllocator final : public device::FrameworkAllocator {
 public:
  // `allocator` is PyTorch's own, and `memory_bytes` the memory of the GPU.
  CachingAllocator(c10::cuda::CUDACachingAllocator::CUDAAllocator& allocator,
                   c10::DeviceIndex ordinal, int64_t memory_bytes);
  // The program's own limit applies again.
  ~CachingAllocator() override;

  int64_t held_bytes() const override { return held().current; }
  // PyTorch's peak is the program's to reset. When it has not moved since reset_peak(), what is
  // held now is all that is known.
  int64_t held_peak_bytes() const override;
  void reset_peak() override { peak_before_bytes_ = held().peak; }
  // The program's own memory fraction.
  int64_t common_limit_bytes() const override;
  void set_limit_bytes(int64_t limit_bytes) override;
  bool give_back() override;
  void note_device_bytes(int64_t allocated_bytes, int64_t held_bytes) override;

 private:
  c10::CachingAllocator::Stat held() const;
  int64_t returnable_bytes() const;
  double programs_fraction() const;
  void lift_limit();

  c10::cuda::CUDACachingAllocator::CUDAAllocator& allocator_;
  const c10::DeviceIndex ordinal_;
  const int64_t memory_bytes_;
  SessionStatistics& statistics_;
  std::optional<double> fraction_before_;  // empty: no limit of ours
  int64_t peak_before_bytes_ = 0;          // PyTorch's peak at the last reset_peak()
  int64_t kept_bytes_ = 0;                 // returnable ones that it has kept when it was asked
  int64_t device_allocated_bytes_ = 0;
  int64_t device_held_bytes_ = 0;
};

}  // namespace teraio::pytorch
