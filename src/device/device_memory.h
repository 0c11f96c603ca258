// DeviceMemory: memory under a hard byte budget.
//
// The public functions check what they are given; a device implements the private ones.
//
// Threads: one at a time, in a session under the engine's lock. No call takes Python's lock.
//
// Ownership: the caller releases every block before the device is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/memory_account.h"

namespace teraio::device {

// A block of at least this size starts on a page boundary and shares its last page with no other
// block. Direct I/O, which moves whole pages, can therefore read into it and write from it.
inline constexpr int64_t kPageBytes = 4096;

enum class Effort : uint8_t {
  kUsual,
  kUtmost,  // uses scattered free memory to the last page, however long that takes
};

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Returns `size_bytes` (>= 0) of memory, or nullptr if the budget has no room now, or only room
  // so fragmented that evicting a tensor is cheaper than moving pages. Effort::kUtmost is for
  // callers that have nothing left to evict. Blocks of at least kPageBytes are aligned to
  // kPageBytes, smaller ones to 64 bytes. Contents are undefined. The caller owns the block until
  // release().
  //
  // The block is valid in compute order: compute that is enqueued from now on may use it. A copy or
  // direct transfer must first wait until compute has done what it was given for the memory before:
  // for an event that was recorded since then, or that is recorded from now on. If pages of the
  // block have moved, earlier compute may still use them under their previous addresses: see
  // may_be_in_use().
  std::byte* allocate(int64_t size_bytes, Effort effort = Effort::kUsual);

  // Releases a block of this device. Compute that is already enqueued may still use it; nothing
  // else may.
  void release(std::byte* memory);

  // After allocate() has refused `size_bytes`: about how much must be released before it can
  // succeed. Less does where it completes pages whose other parts are free. `size_bytes` where the
  // device cannot tell.
  int64_t shortage_bytes(int64_t size_bytes) const { return shortage_of(size_bytes); }

  // Plans leave this much of the budget free for what lies unused beside blocks: parts of pages,
  // where the device's pages are large.
  virtual int64_t spare_bytes() const { return 0; }

  // Whether pages of a block have moved to its addresses, and compute that was enqueued before may
  // still use them under their old ones.
  bool may_be_in_use(const std::byte* memory) const;

  // Work of another stream than compute's, as for DeviceOrder::record_on(), uses a block. After its
  // release, the memory is not used again before what that stream has got by then is done. Does
  // nothing on a device with a single order.
  void record_use(std::byte* memory, void* stream);

  // Returns free memory above the new budget to the system at once. Blocks in use stay, even if
  // they exceed the budget; allocate() then fails until enough of them are released. With
  // kNoBudget, a device that shares its memory returns all that is free, from now on whenever a
  // block is released: others need it then. A negative budget counts as 0.
  void set_budget_bytes(int64_t budget_bytes);

  // Returns at least `size_bytes` of free memory to the system, in whole pages of the device, or
  // all of it if less is free, for other allocators of the same memory. Returns the number of
  // bytes. A device that shares its memory with nobody keeps it and returns `size_bytes`.
  int64_t return_free_bytes(int64_t size_bytes) { return return_free(size_bytes); }

  // Adds `size_bytes`, which may be negative, to the memory of other owners that counts against the
  // budget. usage() counts it as allocated and reserved. It may exceed the budget; allocate() then
  // fails until enough blocks are released.
  void add_outside_bytes(int64_t size_bytes) { count_outside(size_bytes); }

  // May query an allocator. The two below are read at every op, and cost no more than a load.
  MemoryUsage usage() const { return complete(account().usage()); }
  int64_t budget_bytes() const { return account().budget_bytes(); }
  int64_t allocated_bytes() const { return account().allocated_bytes(); }
  void reset_peak() { forget_peaks(); }

  virtual const MemoryAccount& account() const = 0;

 private:
  // `size_bytes` is neither negative nor more than the budget's room. Blocks are entered in the
  // account and removed from it here.
  virtual std::byte* allocate_block(int64_t size_bytes, Effort effort) = 0;
  // The account has the block.
  virtual void release_block(std::byte* memory) = 0;
  virtual void change_budget(int64_t budget_bytes) = 0;
  virtual void count_outside(int64_t size_bytes) = 0;
  virtual void forget_peaks() = 0;
  // Adds to the account's figures what the device alone knows.
  virtual MemoryUsage complete(MemoryUsage usage) const { return usage; }

  // For devices whose pages are large, move, or are shared with others.
  virtual int64_t shortage_of(int64_t size_bytes) const { return size_bytes; }
  virtual bool is_block_in_use(const std::byte* /*memory*/) const { return false; }
  virtual void note_use(std::byte* /*memory*/, void* /*stream*/) {}
  virtual int64_t return_free(int64_t size_bytes) { return size_bytes; }
};

}  // namespace teraio::device
