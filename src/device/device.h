// Device: memory under a hard byte budget, and the order of work on it.
//
// The engine allocates only here, and PyTorch's allocations on the device come from the same place.
// There is one implementation for the CPU and one for CUDA; the caller chooses at run time.
//
// Threads: allocate, release, record_use, return_free_bytes, set_budget_bytes, usage and reset_peak
// are called under the engine's lock or from one thread. Copies and events may be used from any
// thread, except that order_after and the calls of op_timer() need that lock while ops are timed.
// No call takes Python's lock.
//
// Ownership: the caller releases every block before the device is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/status.h"

namespace teraio::device {

class MemorySegments;
class OpTimer;

// A block of at least this size starts on a page boundary and shares its last page with no other
// block. Direct I/O, which moves whole pages, can therefore read into it and write from it.
inline constexpr int64_t kPageBytes = 4096;

// As a budget: no limit.
inline constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max();

struct MemoryUsage {
  int64_t budget_bytes = 0;
  int64_t allocated_bytes = 0;       // in use, after the allocator's rounding
  int64_t allocated_peak_bytes = 0;  // since the last reset_peak()
  int64_t reserved_bytes = 0;  // physical memory held: allocated, plus free memory kept for reuse
  int64_t reserved_peak_bytes = 0;
  int64_t neighbour_bytes = 0;     // of the budget, what another allocator holds
  int64_t rounding_bytes = 0;      // lost to rounding (internal fragmentation)
  int64_t largest_free_bytes = 0;  // largest allocation that moves no pages
  int64_t stitch_count = 0;        // allocations assembled from scattered free pages
};

// A point in an order of work on the device. Copyable. The id 0 denotes a point that has passed.
struct Event {
  uint64_t id = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;  // "cpu", "cuda:0"

  // Returns `size_bytes` (>= 0) of memory, or nullptr if the budget has no room now, or only room
  // so fragmented that evicting a tensor is cheaper than moving pages. Blocks of at least
  // kPageBytes are aligned to kPageBytes, smaller ones to 64 bytes. Contents are undefined. The
  // caller owns the block until release().
  //
  // The block is valid in compute order: compute that is enqueued from now on may use it. A copy or
  // direct transfer must first wait until compute has done what it was given for the memory before:
  // for an event that was recorded since then, or that is recorded from now on. Where pages have
  // moved (may_be_in_use()), that was given for other addresses.
  virtual std::byte* allocate(int64_t size_bytes) = 0;

  // Like allocate(), but uses scattered free memory to the last page, however long that takes. For
  // callers that have nothing left to evict.
  virtual std::byte* allocate_at_all_costs(int64_t size_bytes) { return allocate(size_bytes); }

  // After allocate() has refused `size_bytes`: about how much must be released before it can
  // succeed. Less does where it completes pages whose other parts are free. `size_bytes` where the
  // device cannot tell.
  virtual int64_t shortage_bytes(int64_t size_bytes) const { return size_bytes; }

  // Plans leave this much of the budget free for what lies unused beside blocks: parts of pages,
  // where the device's pages are large.
  virtual int64_t spare_bytes() const { return 0; }

  // Whether pages of a block have moved to its addresses, and compute that was enqueued before may
  // still use them under their old ones.
  virtual bool may_be_in_use(const std::byte* /*memory*/) const { return false; }

  // Releases a block of this device. Compute that is already enqueued may still use it; nothing
  // else may.
  virtual void release(std::byte* memory) = 0;

  // Returns free memory above the new budget to the system at once. Blocks in use stay, even if
  // they exceed the budget; allocate() then fails until enough of them are released. With
  // kNoBudget, a device that shares its memory returns all that is free, from now on whenever a
  // block is released: others need it then.
  virtual void set_budget_bytes(int64_t budget_bytes) = 0;

  // Returns at least `size_bytes` of free memory to the system, in whole pages of the device, or
  // all of it if less is free, for other allocators of the same memory. Returns the number of
  // bytes. A device that shares its memory with nobody keeps it and returns `size_bytes`.
  virtual int64_t return_free_bytes(int64_t size_bytes) { return size_bytes; }

  // Work of another stream than compute's, as for record_on(), uses a block. After its release, the
  // memory is not used again before what that stream has got by then is done. Does nothing on a
  // device with a single order.
  virtual void record_use(std::byte* /*memory*/, void* /*stream*/) {}

  // Adds `size_bytes`, which may be negative, to the memory of other owners that counts against the
  // budget. usage() counts it as allocated and reserved. It may exceed the budget; allocate() then
  // fails until enough blocks are released.
  virtual void add_outside_bytes(int64_t size_bytes) = 0;

  virtual MemoryUsage usage() const = 0;
  // These fields of usage() are read at every op. They cost no more than a load, whereas usage()
  // may query an allocator.
  virtual int64_t budget_bytes() const = 0;
  virtual int64_t allocated_bytes() const = 0;
  virtual void reset_peak() = 0;

  // Returns the point that all compute enqueued so far reaches when it is done. On the CPU it has
  // passed. If it cannot be recorded, the error is logged, and wait() for it fails.
  virtual Event record() = 0;
  // Like record(), but for another order of work: a stream of the framework, such as a
  // cudaStream_t. A device with a single order ignores `stream`.
  virtual Event record_on(void* /*stream*/) { return record(); }
  // False also when that cannot be known because the device has failed: wait() tells.
  virtual bool has_passed(Event event) const = 0;
  // Blocks the calling thread until `event` has passed. kDeviceFailed: it never will.
  virtual Status wait(Event event) = 0;
  // Makes compute that is enqueued from now on wait for `event`, the end of a copy. Does not block
  // the caller.
  virtual Status order_after(Event event) = 0;
  // The same for work on a stream of the framework, as for record_on().
  virtual Status order_stream_after(void* /*stream*/, Event event) { return order_after(event); }

  // Starts a copy on one of the device's own copy streams, after `after` has passed. Both buffers
  // must stay valid until the returned event has passed. If compute writes to the source before
  // that, the contents of the target are undefined. On the CPU the copy is complete on return.
  virtual Result<Event> copy_to_host(std::byte* host, const std::byte* device, int64_t size_bytes,
                                     Event after) = 0;
  virtual Result<Event> copy_from_host(std::byte* device, const std::byte* host, int64_t size_bytes,
                                       Event after) = 0;

  // Sets all bytes to `value`, as compute that is enqueued now. A device without bytes ignores it.
  virtual Status fill(std::byte* memory, int64_t size_bytes, int value) {
    if (is_host_addressable()) std::memset(memory, value, static_cast<size_t>(size_bytes));
    return {};
  }

  // Pins host memory until unpin_host(), so that copies run at full speed and do not block. After a
  // failure the memory is still usable, with slower copies, and a part of it may be pinned:
  // unpin_host() is to be called nevertheless. Does nothing on the CPU.
  virtual Status pin_host(std::byte* /*host*/, int64_t /*size_bytes*/) { return {}; }
  virtual void unpin_host(std::byte* /*host*/) {}
  // Returns pinned host memory of the device's driver, for systems that refuse to pin what a
  // process has mapped; nullptr if it has none. The caller owns it until free_pinned_host().
  virtual std::byte* allocate_pinned_host(int64_t /*size_bytes*/) { return nullptr; }
  virtual void free_pinned_host(std::byte* /*host*/) {}

  // The host's NUMA node that is nearest to the device; -1 if it is unknown, or if no node is
  // nearer than the others.
  virtual int32_t numa_node() const { return -1; }

  // Prepares the calling thread to pass device memory to another library: makes the device the
  // thread's current one. Does nothing on the CPU.
  virtual void bind_thread() {}

  // The segments that contain the device's blocks. Code that registers device memory with a library
  // for I/O registers whole segments. The first call starts to track them, for blocks that are
  // allocated afterwards. They live at least as long as the device. nullptr if the segments are
  // unknown. Threads: as allocate.
  virtual MemorySegments* segments() { return nullptr; }

  // Measures the durations of ops; lives as long as the device. nullptr if the caller's own clock
  // measures them.
  virtual OpTimer* op_timer() { return nullptr; }

  // True if the CPU, and therefore direct file I/O, can address the memory: no staging is needed.
  virtual bool is_host_addressable() const = 0;
};

}  // namespace teraio::device
