// DriveLoadGenerator: keeps an ssd store busy, to measure its drives and our I/O path to them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "probe/load_generator.h"
#include "probe/sustained_rate.h"
#include "storage/ssd_store.h"

namespace teraio::probe {

// Medians of 64 samples.
struct UrgentLatency {
  int64_t idle_ns = 0;   // of an urgent read of one request's size on idle drives
  int64_t busy_ns = 0;   // of the same read behind a full queue of planned writes
  int64_t write_ns = 0;  // of a write of one request's size on idle drives
};

// Transfers consist of many requests each and contain bytes that no drive can compress. Threads:
// one at a time. Owns the store, which leaves no file.
class DriveLoadGenerator {
 public:
  // Allocates `file_bytes` (at least six requests) in the directories and writes all of it.
  // Transfers are smaller than usual where fewer than 96 MiB are given. Ignores
  // `options.capacity_bytes`. Fails like open_ssd_store(), if a write fails, or with kInterrupted,
  // as run() and run_until_settled() do, when `stop` comes. `on_written` is as in
  // LoadGenerator::fill().
  static Result<std::unique_ptr<DriveLoadGenerator>> open(
      const std::vector<storage::SsdDirectory>& directories, int64_t file_bytes,
      storage::SsdStoreOptions options, StopRequest stop = StopRequest(),
      const std::function<void(int64_t)>& on_written = {});
  ~DriveLoadGenerator();

  // Keeps the chosen directions busy for this time.
  Result<LoadRates> run(bool reads, bool writes, int64_t duration_ns) {
    return load_->run(reads, writes, duration_ns);
  }

  // Runs until the rates have settled or a limit is reached. `on_progress`, if not empty, is called
  // after every transfer.
  Result<SustainedRate> run_until_settled(
      bool reads, bool writes, const SustainedRateOptions& options,
      const std::function<void(const LoadProgress&)>& on_progress = {});

  // The median latency of 64 reads of 4 KiB on idle drives.
  Result<int64_t> read_latency_ns();

  Result<UrgentLatency> urgent_latency();

  // The memory of the generator's own buffers, without the store's.
  int64_t buffer_bytes() const;

  storage::TierCounters counters() const { return store_->counters(); }

 private:
  using Buffer = std::unique_ptr<std::byte, decltype(&std::free)>;
  static Buffer make_buffer();

  explicit DriveLoadGenerator(int64_t request_bytes);
  LoadMemory memory() const;
  // Reserves an extent and writes it.
  Result<storage::Extent> reserve(int64_t size_bytes);
  // The median of transfers that run one after another.
  Result<int64_t> idle_ns(io::Direction direction, const storage::Extent& extent,
                          storage::Priority priority);
  Result<int64_t> urgent_read_behind_writes_ns();

  SteadyClock clock_;
  const int64_t request_bytes_;  // at most the transfer size
  Buffer noise_;                 // the source of all writes
  std::vector<Buffer> targets_;  // of reads, one per lane
  std::unique_ptr<storage::TierStore> store_;
  storage::Extent small_;
  storage::Extent request_;              // of one request's size
  std::unique_ptr<LoadGenerator> load_;  // uses store_
};

}  // namespace teraio::probe
