// TierStore: a place where the bytes of tensors rest when they are not on the device.
//
// Two kinds exist, `ssd` (one or more drives, striped) and `host` (a memory pool with a hard
// limit); the engine uses both through this header. Bytes are written to and read from extents that
// the store hands out. Transfers are asynchronous.
//
// Threads: all calls may come from any thread and none blocks on I/O. `done` is called exactly once
// per submitted transfer, on a thread of the store, without a lock of the store held: it must be
// short, must not block, and must not call into the store. Memory given to a transfer stays valid
// and unmoved until its `done`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "device/memory_segments.h"
#include "io/drive_io.h"

namespace teraio::storage {

// The name of an extent among the reserved ones of its store; a released name may come again. A
// store that has drives makes it from the place of the extent's first byte, and the other bytes can
// be anywhere.
using ExtentId = int64_t;

// A reserved place of one tensor.
struct Extent {
  ExtentId id = -1;
  int64_t size_bytes = 0;  // as asked for, not rounded

  bool is_valid() const { return id >= 0; }
  bool operator==(const Extent&) const = default;
};

// A copy that a plan makes in every iteration, and when it is on the tier: from `begin` until
// before `end`, in any unit of time.
struct PlannedCopy {
  int64_t size_bytes = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// Within one direction urgent transfers go first, in the order in which they became urgent. Then
// planned reads by deadline, and planned writes in issue order.
enum class Priority : uint8_t { kUrgent, kPlanned };

struct Completion {
  Status status;                  // not ok: nothing may be assumed of the bytes
  int64_t transferred_bytes = 0;  // exactly the extent's size when ok
  int64_t submit_ns = 0;
  int64_t start_ns = 0;  // when the first byte was asked of the medium
  int64_t end_ns = 0;
};

struct Transfer {
  io::Direction direction = io::Direction::kRead;
  Extent extent;                // whole: extents are moved in one piece
  std::byte* memory = nullptr;  // extent.size_bytes, page-aligned for direct I/O
  Priority priority = Priority::kPlanned;
  int64_t deadline = 0;  // orders planned reads: smaller first; any unit
  std::function<void(const Completion&)> done;
  device::Event ready;  // of the device: the memory is not touched before it has passed
  // Of reads, where the last step is a copy of the device: called at most once, and before `done`,
  // when every byte is on its way and will be there once all of these have passed. Rules as for
  // `done`; memory and extent are the transfer's until that.
  std::function<void(std::span<const device::Event>)> on_copies_enqueued = {};
};

using TransferId = uint64_t;

struct DriveCounters {
  std::string name;
  std::string io_path;  // "io_uring direct", "threads buffered", ...
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t gpu_direct_bytes_read = 0;  // of bytes_read: drive to device without host memory
  int64_t gpu_direct_bytes_written = 0;
  std::string gpu_direct_off;  // why not, where the memory is a device's; empty: it is on
  int64_t read_busy_ns = 0;    // time with at least one read under way
  int64_t write_busy_ns = 0;
  int64_t read_bytes_per_second = 0;  // under load, of late; 0: not known yet
  int64_t write_bytes_per_second = 0;
  int64_t error_count = 0;
  std::string slowdown;  // below what was planned with, and why; empty: as fast as planned
};

struct TierCounters {
  int64_t capacity_bytes = 0;
  int64_t reserved_bytes = 0;
  int64_t reserved_peak_bytes = 0;
  int64_t laid_out_bytes = 0;   // kept for the plan's copies, whether they are there or not
  int64_t displaced_count = 0;  // planned copies whose place was not free when they came
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t staging_bytes = 0;         // host memory between drives and device, beyond what is stored
  device::SegmentCounters segments;  // of the device's memory, registered for GPUDirect Storage
  std::vector<DriveCounters> drives;
};

class TierStore {
 public:
  // Waits for the transfers under way, calls `done` of the others with kCancelled, and leaves no
  // file behind.
  virtual ~TierStore() = default;

  virtual std::string_view name() const = 0;  // "ssd", "host"

  // kOutOfSpace when there is no room. The extent's contents are undefined until written.
  virtual Result<Extent> reserve(int64_t size_bytes) = 0;
  // No transfer of the extent is under way or waits.
  virtual void release(const Extent& extent) = 0;

  // Fixes where these copies will lie, and keeps that room for them: it is not there for reserve()
  // any more. Copies that are never there at once may share bytes. The layout before this one is
  // forgotten; extents that were made by it stay where they are until they are released. An empty
  // one gives all room back. kOutOfSpace, in bytes, when there is not enough: no layout at all.
  virtual Status lay_out(std::span<const PlannedCopy> copies) = 0;
  // The extent of the copy with this index of the layout; its contents are undefined until written.
  // Takes no search for room and no memory. nullopt: another copy, which should be gone by now, is
  // still on some of its bytes, or there is no such copy.
  virtual std::optional<Extent> reserve_planned(size_t copy) = 0;

  // A failure that can be known at once (bad extent, unaligned memory) also arrives through `done`.
  virtual TransferId submit(Transfer transfer) = 0;

  // True: it had not started and will not; `done` is called with kCancelled. False: too late.
  virtual bool cancel(TransferId id) = 0;

  // Makes a waiting transfer urgent; of one that has started, what was not yet asked of the medium.
  // Nothing happens when it has ended.
  virtual void expedite(TransferId id) = 0;

  virtual TierCounters counters() const = 0;
};

}  // namespace teraio::storage
