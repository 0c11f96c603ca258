// DriveLoadGenerator: an ssd store kept busy, to measure what its drives and our path to them can
// do.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "probe/load_generator.h"
#include "probe/sustained_rate.h"
#include "storage/ssd_store.h"

namespace teraio::probe {

// Medians of many.
struct UrgentLatency {
  int64_t idle_ns = 0;   // of an urgent read of one request's size on idle drives
  int64_t busy_ns = 0;   // of the same behind a full queue of planned writes
  int64_t write_ns = 0;  // of a write of one request's size on idle drives
};

// Transfers of many requests each, of bytes that no drive can compress. One thread.
class DriveLoadGenerator {
 public:
  // Takes `file_bytes` (at least 96 MiB) on the directories and writes all of it.
  // `options.capacity_bytes` is not used.
  static Result<std::unique_ptr<DriveLoadGenerator>> open(
      const std::vector<storage::SsdDirectory>& directories, int64_t file_bytes,
      storage::SsdStoreOptions options);
  ~DriveLoadGenerator();

  // Keeps the chosen directions busy for that long.
  Result<LoadRates> run(bool reads, bool writes, int64_t duration_ns) {
    return load_->run(reads, writes, duration_ns);
  }

  // Until the rates have settled, or a bound is met.
  Result<SustainedRate> run_until_settled(bool reads, bool writes,
                                          const SustainedRateOptions& options);

  // Of a 4 KiB read on idle drives: the median of many.
  Result<int64_t> read_latency_ns();

  Result<UrgentLatency> urgent_latency();

  // What the load itself holds of memory, beside the store.
  int64_t buffer_bytes() const;

  storage::TierCounters counters() const { return store_->counters(); }

 private:
  using Buffer = std::unique_ptr<std::byte, decltype(&std::free)>;
  static Buffer make_buffer();

  explicit DriveLoadGenerator(int64_t request_bytes);
  LoadMemory memory() const;
  // Writes it too.
  Result<storage::Extent> reserve(int64_t size_bytes);
  // Median of transfers one after the other.
  Result<int64_t> idle_ns(io::Direction direction, const storage::Extent& extent,
                          storage::Priority priority);
  Result<int64_t> urgent_read_behind_writes_ns();

  SteadyClock clock_;
  const int64_t request_bytes_;  // at most as large as a transfer
  Buffer noise_;                 // the source of all writes
  std::vector<Buffer> targets_;  // of reads, one per lane
  std::unique_ptr<storage::TierStore> store_;
  storage::Extent small_;
  storage::Extent request_;              // of one request's size
  std::unique_ptr<LoadGenerator> load_;  // of the store
};

}  // namespace teraio::probe
