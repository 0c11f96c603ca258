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
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "device/memory_account.h"

namespace teraio::device {

// A block of at least this size starts on a page boundary and shares its last page with no other
// block. Direct I/O, which moves whole pages, can therefore read into it and write from it.
inline constexpr int64_t kPageBytes = 4096;

enum class Effort : uint8_t {
  kUsual,
  kUtmost,  // exchanges scattered free pages for others, however long that takes
};

// When a block will be released, counted in iterations of the program: 2.25 is a quarter into the
// third one.
inline constexpr double kSoon = -std::numeric_limits<double>::infinity();  // or unknown
inline constexpr double kNever = std::numeric_limits<double>::infinity();

// Who has a block. A device places blocks by it, and nothing else depends on it.
struct Tenant {
  void* id = nullptr;  // for MayMove; null: the block never moves
  double leaves_at = kSoon;
};

using MayMove = std::function<bool(void* tenant)>;

struct Relocation {
  std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t size_bytes = 0;
  void* tenant = nullptr;
};

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Returns `size_bytes` (>= 0) of memory, or nullptr if the budget has no room now, or only
  // scattered room: find_room(). Effort::kUtmost is for callers that have nothing left to evict.
  // Blocks of at least kPageBytes are aligned to kPageBytes, smaller ones to 64 bytes. Contents are
  // undefined. The caller owns the block until release().
  //
  // The block is valid in compute order: compute that is enqueued from now on may use it. A copy or
  // direct transfer must first wait until compute has done what it was given for the memory before:
  // for an event that was recorded since then, or that is recorded from now on.
  std::byte* allocate(int64_t size_bytes, Effort effort = Effort::kUsual,
                      const Tenant& tenant = {});
  // The block is another tenant's from now on, which leaves at the same time.
  void set_tenant(const std::byte* memory, void* id);
  // When it leaves is known, or known better.
  void set_leaves_at(const std::byte* memory, double leaves_at);

  // After allocate() has refused `size_bytes`: blocks whose moves make room for it, of at most
  // `most_bytes` in all. Empty: there are none.
  std::vector<Relocation> find_room(int64_t size_bytes, const MayMove& may_move,
                                    int64_t most_bytes) const;
  // Carries out what find_room() has returned, with no call in between. The blocks are at `to` from
  // now on. The caller moves their bytes in this order (DeviceOrder::move_within) before it uses
  // the device's memory in any other way.
  void relocate(std::span<const Relocation> relocations);

  // Releases a block of this device. Compute that is already enqueued may still use it; nothing
  // else may.
  void release(std::byte* memory);

  // Plans leave this much of the budget free for what lies unused between blocks.
  virtual int64_t spare_bytes() const { return 0; }

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
  virtual std::byte* allocate_block(int64_t size_bytes, Effort effort, const Tenant& tenant) = 0;
  // The account has the block.
  virtual void release_block(std::byte* memory) = 0;
  virtual void change_budget(int64_t budget_bytes) = 0;
  virtual void count_outside(int64_t size_bytes) = 0;
  virtual void forget_peaks() = 0;
  // Adds to the account's figures what the device alone knows.
  virtual MemoryUsage complete(MemoryUsage usage) const { return usage; }

  // For devices whose blocks move, or whose memory is shared with others.
  virtual void note_tenant(const std::byte* /*memory*/, void* /*id*/) {}
  virtual void note_leaves_at(const std::byte* /*memory*/, double /*leaves_at*/) {}
  virtual std::vector<Relocation> find_relocations(int64_t /*size_bytes*/,
                                                   const MayMove& /*may_move*/,
                                                   int64_t /*most_bytes*/) const {
    return {};
  }
  virtual void relocate_blocks(std::span<const Relocation> /*relocations*/) {}
  virtual void note_use(std::byte* /*memory*/, void* /*stream*/) {}
  virtual int64_t return_free(int64_t size_bytes) { return size_bytes; }
};

}  // namespace teraio::device
