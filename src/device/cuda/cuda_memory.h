// CudaMemory: the physical memory of a CudaDevice, shared with the framework's allocator.
//
//     |#### arena: blocks and free pages ####|:: room ::|## framework ##|
//     '------------------------- limit --------------------------------'
//
// The arena maps pages of the GPU as it grows into the room. Where that is too little, it asks the
// framework for what it has cached; where the framework needs more, return_free_bytes() leaves it
// the arena's free pages.
//
// Threads: one at a time. The GPU must be the calling thread's current one, except for
// allocate_free() and release().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "device/arena.h"
#include "device/cuda/cuda_address_space.h"
#include "device/cuda_device.h"

namespace teraio::device {

class CudaMemory {
 public:
  // `framework` may be null. `limit_bytes` also determines the size of the pages for good. Fails as
  // CudaAddressSpace::reserve() does, and with the text of a failed call of CUDA.
  static Result<std::unique_ptr<CudaMemory>> make(int32_t ordinal, int64_t limit_bytes,
                                                  std::unique_ptr<FrameworkAllocator> framework,
                                                  std::function<Status()> wait_for_compute);

  // Returns a block of `size_bytes` (> 0, whole kPageBytes) from the arena's free pages, or nullptr
  // if none are contiguous. Makes no call of CUDA.
  std::byte* allocate_free(int64_t size_bytes, const Tenant& tenant);
  // Likewise, also from new pages. nullptr: the limit has no room. With Effort::kUtmost, what the
  // framework held before make(), and has not returned yet, does not count. A program's tensors are
  // copied from there into the arena, and whole segments of the framework become free only when all
  // tensors in them are copied.
  std::byte* allocate(int64_t size_bytes, Effort effort, const Tenant& tenant);
  // `size_bytes` is the size that was allocated.
  void release(std::byte* block, int64_t size_bytes);

  // Returns free memory above the limit to the GPU.
  void set_limit_bytes(int64_t limit_bytes);
  // Returns at least `size_bytes` of free pages to the GPU, or all of them if fewer are free.
  // Returns their size.
  int64_t return_free_bytes(int64_t size_bytes);

  Arena& arena() { return *arena_; }
  const Arena& arena() const { return *arena_; }
  // What the framework holds, if that counts against a budget of this size: one below the least
  // limit is a limit on blocks alone.
  int64_t framework_bytes_within(int64_t budget_bytes) const {
    return limit_bytes_ > budget_bytes ? 0 : framework_bytes();
  }
  int64_t held_bytes() const { return arena_->held_bytes() + framework_bytes(); }
  int64_t held_peak_bytes();  // since the last reset_peak()
  void reset_peak();
  // The largest block that needs no other to move.
  int64_t largest_bytes() const { return arena_->largest_bytes(room_bytes()); }
  // What may lie unused between blocks within the limit.
  int64_t spare_bytes() const;
  MemorySegments& segments() { return space_.segments(); }

 private:
  CudaMemory(std::unique_ptr<CudaAddressSpace> space,
             std::unique_ptr<FrameworkAllocator> framework);

  std::byte* hand_out(std::byte* block, int64_t size_bytes);
  std::byte* allocate_usual(int64_t size_bytes, const Tenant& tenant);
  std::byte* allocate_within(int64_t size_bytes, int64_t room_bytes, Effort effort,
                             const Tenant& tenant);
  bool is_refused_still(int64_t size_bytes) const;
  int64_t framework_bytes() const { return framework_ == nullptr ? 0 : framework_->held_bytes(); }
  int64_t room_bytes() const;
  void note_peak();
  void tell_framework();

  CudaAddressSpace& space_;  // of the arena
  const std::unique_ptr<Arena> arena_;
  const std::unique_ptr<FrameworkAllocator> framework_;
  int64_t limit_bytes_ = 0;
  int64_t allocated_bytes_ = 0;
  int64_t framework_limit_bytes_ = -1;  // as it was told
  int64_t framework_old_bytes_ = 0;     // that it holds since make()
  int64_t held_peak_bytes_ = 0;
  int64_t refused_bytes_ = 0;  // a size that was refused; 0: none
  int64_t awaited_bytes_ = 0;  // to be released before it is tried again
};

}  // namespace teraio::device
