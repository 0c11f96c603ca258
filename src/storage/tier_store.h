// TierStore: stores the bytes of tensors that are not on the device.
//
// There are two kinds, `ssd` (one or more drives, striped) and `host` (a pool of host memory with a
// hard limit). Bytes are written to and read from extents that the store reserves. Transfers are
// asynchronous.
//
// Threads: any thread may make any call, and no call blocks on I/O except the destructor. The store
// calls `done` exactly once per submitted transfer, on one of its own threads, without holding a
// lock. `done` must be short, must not block, and must not call into the store. The memory of a
// transfer must stay valid and in place until then.
//
// A transfer that fails because a drive does not answer (fail_unanswered()) has two calls of
// `done`: the first, with Completion::is_unanswered, on the thread that found out, and the second,
// with the same status, when the drive has answered. The drive may use the memory and the extent
// until then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rates.h"
#include "base/status.h"
#include "device/device.h"
#include "device/memory_segments.h"
#include "io/drive_io.h"

namespace teraio::storage {

// Identifies an extent among those that a store has reserved. The id of a released extent may be
// used again. It is derived from the place of the extent's first byte; the other bytes can be
// anywhere.
using ExtentId = int64_t;

// The reserved place of one tensor.
struct Extent {
  ExtentId id = -1;
  int64_t size_bytes = 0;  // as requested, not rounded

  bool is_valid() const { return id >= 0; }
  bool operator==(const Extent&) const = default;
};

// A copy that a plan makes in every iteration. It is on the tier from `begin` until before `end`,
// in any unit of time.
struct PlannedCopy {
  int64_t size_bytes = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// In each direction, urgent transfers go first, in the order in which they became urgent. Planned
// reads follow by deadline, and planned writes in order of submission.
enum class Priority : uint8_t { kUrgent, kPlanned };

// What one drive did for a transfer. The bytes are those that it has moved, also of a transfer that
// failed.
struct DrivePart {
  int32_t drive = 0;     // of TierCounters::drives
  int64_t start_ns = 0;  // when the first request was chosen for it
  int64_t end_ns = 0;    // when the last result came
  int64_t moved_bytes = 0;
};

struct Completion {
  Status status;                  // if not ok, the bytes are undefined
  int64_t transferred_bytes = 0;  // the extent's size if ok
  int64_t submit_ns = 0;
  int64_t start_ns = 0;  // when the first request was chosen for its drive
  int64_t end_ns = 0;
  bool is_unanswered = false;         // `done` will be called again
  std::vector<DrivePart> parts = {};  // of the drives that it was begun on
};

struct Transfer {
  io::Direction direction = io::Direction::kRead;
  Extent extent;                // moved as a whole
  std::byte* memory = nullptr;  // page-aligned; its last page is accessed whole
  Priority priority = Priority::kPlanned;
  int64_t deadline = 0;  // orders planned reads, smaller first; any unit
  std::function<void(const Completion&)> done;
  device::Event ready;  // a device event; the memory is touched only after it has passed
  // For reads that end with copies on the device. Called at most once, before `done`, when all
  // copies are enqueued; the bytes have arrived when all of these events have passed. The rules of
  // `done` apply. The transfer uses its memory and extent until `done`.
  std::function<void(std::span<const device::Event>)> on_copies_enqueued = {};
};

using TransferId = uint64_t;

// The rates of a drive under one kind of load, from samples of a second each.
struct LoadedRates {
  double read_bytes_per_second = 0;
  double write_bytes_per_second = 0;
  int32_t sample_count = 0;
};

struct DriveCounters {
  std::string name;
  std::string io_path;  // "io_uring direct", "threads buffered", ...
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t gpu_direct_bytes_read = 0;  // of bytes_read: moved to the device without host memory
  int64_t gpu_direct_bytes_written = 0;
  std::string gpu_direct_off;  // the reason, for a device's memory; empty: on
  int64_t read_busy_ns = 0;    // time with at least one read in flight
  int64_t write_busy_ns = 0;
  Rates recent_rates;       // under load
  LoadedRates reads_alone;  // while no write was in flight
  LoadedRates writes_alone;
  LoadedRates both_at_once;  // while both directions were under load
  int64_t error_count = 0;
  std::string slowdown;          // slower than planned, and why; empty: as fast as planned
  int64_t unanswered_count = 0;  // times that the drive did not answer in time, and was left alone
};

struct TierCounters {
  int64_t capacity_bytes = 0;
  int64_t reserved_bytes = 0;
  int64_t reserved_peak_bytes = 0;
  int64_t laid_out_bytes = 0;   // reserved for the plan's copies, whether in use or not
  int64_t displaced_count = 0;  // planned copies whose place was in use
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t staging_bytes = 0;         // host memory for staging, besides what is stored
  device::SegmentCounters segments;  // of device memory, registered for GPUDirect Storage
  std::vector<DriveCounters> drives;
};

class TierStore {
 public:
  // Waits for the transfers that have started, calls `done` with kCancelled for the others, and
  // leaves no file behind.
  virtual ~TierStore() = default;

  virtual std::string_view name() const = 0;  // "ssd", "host"

  // Reserves an extent, with undefined contents until it is written. Returns kOutOfSpace if there
  // is no room and kInvalidArgument for a negative size.
  virtual Result<Extent> reserve(int64_t size_bytes) = 0;
  // Requires that no transfer of the extent is waiting or in flight.
  virtual void release(const Extent& extent) = 0;

  // Reserves places for these copies, which reserve() then cannot use. Copies that are never on the
  // tier at the same time may share bytes. Replaces the previous layout; its extents stay in place
  // until they are released. An empty layout frees the reserved places. Returns kOutOfSpace, with
  // the bytes wanted and free, if there is not enough room; the store then has no layout.
  virtual Status lay_out(std::span<const PlannedCopy> copies) = 0;
  // Returns the extent of the copy with this index in the layout, with undefined contents until it
  // is written. Needs neither a search nor an allocation. Returns nullopt if another copy still
  // occupies some of its bytes, or if there is no such copy.
  virtual std::optional<Extent> reserve_planned(size_t copy) = 0;

  // Queues a transfer. Invalid arguments, such as an unknown extent or unaligned memory, are also
  // reported through `done`.
  virtual TransferId submit(Transfer transfer) = 0;

  // Returns true if the transfer had not started: it will not, and `done` gets kCancelled. Returns
  // false if it is too late.
  virtual bool cancel(TransferId id) = 0;

  // Makes a planned transfer urgent. If it has started, that applies to the requests not yet given
  // to a drive. Does nothing if it has ended.
  virtual void expedite(TransferId id) = 0;

  virtual TierCounters counters() const = 0;

  // Fails the transfers that wait for a drive which has not answered a request in the store's time.
  // Until the drive has answered, writes to it fail at once, and so do reads if it was a read; new
  // extents are on other drives from now on while those have room. Does nothing in a store without
  // such a limit. To be called now and then.
  virtual void fail_unanswered() {}
  // False: a write of the extent fails, because a drive does not answer.
  virtual bool takes_writes(const Extent& /*extent*/) const { return true; }

  // Describes the oldest request of each drive that has not answered it for this long; empty when
  // there are none.
  virtual std::vector<std::string> unanswered(int64_t /*at_least_ns*/) const { return {}; }
};

}  // namespace teraio::storage
