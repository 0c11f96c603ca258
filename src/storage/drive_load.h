// DriveLoad: an ssd store kept busy, to measure what its drives and our path to them can do.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "storage/ssd_store.h"
#include "storage/sustained_rate.h"

namespace teraio {

// Medians of many.
struct UrgentLatency {
  int64_t idle_ns = 0;   // of an urgent read of one request's size on idle drives
  int64_t busy_ns = 0;   // of the same behind a full queue of planned writes
  int64_t write_ns = 0;  // of a write of one request's size on idle drives
};

// Transfers of many requests each, several at a time, of bytes that no drive can compress. One
// thread.
class DriveLoad {
 public:
  // Takes `file_bytes` (at least 96 MiB) on the directories and writes all of it: reads of bytes
  // that were never written do not reach the drive. `options.capacity_bytes` is not used.
  static Result<std::unique_ptr<DriveLoad>> open(const std::vector<SsdDirectory>& directories,
                                                 int64_t file_bytes, SsdStoreOptions options);
  ~DriveLoad();

  // Keeps the chosen directions busy for that long.
  Result<LoadRates> run(bool reads, bool writes, int64_t duration_ns);

  // Until the rates have settled, or a bound is met.
  Result<SustainedRate> run_until_settled(bool reads, bool writes,
                                          const SustainedRateOptions& options);

  // Of a 4 KiB read on idle drives: the median of many.
  Result<int64_t> read_latency_ns();

  Result<UrgentLatency> urgent_latency();

  // What the load itself holds of memory, beside the store.
  int64_t buffer_bytes() const;

  TierCounters counters() const { return store_->counters(); }

 private:
  using Buffer = std::unique_ptr<std::byte, decltype(&std::free)>;
  static Buffer make_buffer();

  struct Ending {
    Direction direction;
    int32_t lane;
    Completion completion;
  };

  explicit DriveLoad(int64_t request_bytes);
  Status reserve(int64_t file_bytes);
  Status fill();
  // Until `is_over`, which sees what has been moved after every transfer.
  Status keep_busy(bool reads, bool writes,
                   const std::function<bool(const LoadProgress&)>& is_over);
  void submit(Direction direction, int32_t lane, const Extent& extent,
              Priority priority = Priority::kPlanned);
  // Median of transfers one after the other.
  Result<int64_t> idle_ns(Direction direction, const Extent& extent, Priority priority);
  Result<int64_t> urgent_read_behind_writes_ns();
  const Extent& next_extent(Direction direction);
  Ending wait_for_ending();

  SteadyClock clock_;
  const int64_t request_bytes_;  // at most as large as a transfer
  Buffer noise_;                 // the source of all writes
  std::vector<Buffer> targets_;  // of reads, one per lane
  // Each direction goes round its own half: no transfer meets another on the same extent.
  std::vector<Extent> extents_[2];
  size_t next_[2] = {0, 0};
  Extent small_;
  Extent request_;  // of one request's size
  std::mutex mutex_;
  std::condition_variable ended_;
  std::deque<Ending> endings_;
  std::unique_ptr<TierStore> store_;  // last: its threads use the others
};

}  // namespace teraio
