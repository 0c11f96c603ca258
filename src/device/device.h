// Device: memory under a hard byte budget, and the order of work on it.
//
// The engine asks for memory here and nowhere else; PyTorch's allocations on the device come from
// the same place. CPU and CUDA are two implementations behind this header, chosen at run time.
//
// Threads: allocate, release, set_budget_bytes, usage and reset_peak are called under the engine's
// lock or from one thread; the copy and event calls may come from any thread. No call takes
// Python's lock. A device outlives the blocks that it handed out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace teraio::device {

class MemorySegments;
class OpTimer;

// Blocks of at least this size start on a page and own their last page whole: direct I/O, which
// moves whole pages, can go to and from them.
inline constexpr int64_t kPageBytes = 4096;

struct MemoryUsage {
  int64_t budget_bytes = 0;
  int64_t allocated_bytes = 0;       // handed out, as rounded by the allocator
  int64_t allocated_peak_bytes = 0;  // since the last reset_peak()
  int64_t reserved_bytes = 0;  // physical memory held: allocated, plus free memory kept for reuse
  int64_t reserved_peak_bytes = 0;
  int64_t rounding_bytes = 0;      // lost to rounding: internal fragmentation
  int64_t largest_free_bytes = 0;  // the largest allocation that succeeds without moving anything
  int64_t stitch_count = 0;        // allocations put together from scattered free pages
};

// A point in the device's compute order. Copyable; 0 is "already passed".
struct Event {
  uint64_t id = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;  // "cpu", "cuda:0"

  // Memory for size_bytes (>= 0), or nullptr when the budget does not hold it now, or holds it in
  // pieces so small that evicting more is cheaper than putting them together. Aligned to
  // kPageBytes from that size on, to 64 bytes below. Contents are undefined. The caller releases
  // it. It is given in compute order: compute that is told of from now on may use it, a copy or a
  // direct transfer only after a point that is recorded from now on.
  virtual std::byte* allocate(int64_t size_bytes) = 0;

  // As allocate, but takes any time to put scattered free memory to use, to the last page: for when
  // nothing can be evicted any more.
  virtual std::byte* allocate_at_all_costs(int64_t size_bytes) { return allocate(size_bytes); }

  // `memory` came from this device, and nothing uses it any more but compute that was told before.
  virtual void release(std::byte* memory) = 0;

  // Free memory beyond the new budget goes back to the system at once; allocations stay, also when
  // they are more than the new budget: then allocate() fails until enough is released.
  virtual void set_budget_bytes(int64_t budget_bytes) = 0;

  virtual MemoryUsage usage() const = 0;
  // Of usage() what is asked for at every op: no more than reading a number, as usage() is not on
  // every device.
  virtual int64_t budget_bytes() const = 0;
  virtual int64_t allocated_bytes() const = 0;
  virtual void reset_peak() = 0;

  // The point that compute has been told to reach so far. On the CPU it has always passed.
  virtual Event record() = 0;
  // The same for another order of work on the device: a stream of the framework's, as it calls it
  // (a cudaStream_t). Where there is but one order, it is that one's.
  virtual Event record_on(void* /*stream*/) { return record(); }
  virtual bool has_passed(Event event) const = 0;
  // Blocks the calling thread until `event` has passed.
  virtual Status wait(Event event) = 0;
  // Later compute waits for `event` (a copy's); the caller does not.
  virtual Status order_after(Event event) = 0;

  // Asynchronous copies on the device's own copy order, begun after `after` has passed. Both
  // buffers stay valid until the returned event has passed. What compute writes to the source
  // meanwhile leaves anything at the target. On the CPU they are done on return.
  virtual Result<Event> copy_to_host(std::byte* host, const std::byte* device, int64_t size_bytes,
                                     Event after) = 0;
  virtual Result<Event> copy_from_host(std::byte* device, const std::byte* host, int64_t size_bytes,
                                       Event after) = 0;

  // Host memory to which copies go at full speed without blocking, until unpin_host. A failure
  // leaves it usable, with slower copies. Nothing to do where the device's memory is the host's.
  virtual Status pin_host(std::byte* /*host*/, int64_t /*size_bytes*/) { return {}; }
  virtual void unpin_host(std::byte* /*host*/) {}

  // The NUMA node of the host that is nearest; -1: not known, or none is nearer than another.
  virtual int32_t numa_node() const { return -1; }

  // On a thread that is about to give the device's memory to another library: makes the device the
  // thread's current one, where there is such a thing.
  virtual void bind_thread() {}

  // The large pieces that blocks lie in, which whoever registers memory with another library has to
  // go by; as old as the device or older. Known from the first call on. nullptr: not known.
  virtual MemorySegments* segments() { return nullptr; }

  // How long ops take; nullptr where the caller's clock tells. As old as the device.
  virtual OpTimer* op_timer() { return nullptr; }

  // True when the CPU (and so direct file I/O) can address the memory: no staging is needed.
  virtual bool is_host_addressable() const = 0;
};

}  // namespace teraio::device
