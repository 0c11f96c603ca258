// LoadGenerator: keeps a tier busy, to measure it. Runs several transfers of one size at a time in
// each direction, so that the tier never waits for the generator.
//
// Threads: one at a time. Between two calls no transfer is in flight, except those of submit().
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "probe/stop_request.h"
#include "probe/sustained_rate.h"
#include "storage/tier_store.h"

namespace teraio::probe {

inline constexpr int32_t kLoadTransfersAtOnce = 3;

// The memory of transfers, by direction and lane. Each direction has kLoadTransfersAtOnce lanes.
using LoadMemory = std::array<std::vector<std::byte*>, 2>;

class LoadGenerator {
 public:
  struct Ending {
    io::Direction direction;
    int32_t lane;
    storage::Completion completion;
  };

  // `store` and the buffers in `memory` must outlive the generator. Each buffer holds one transfer.
  // When `stop` comes, fill() and what keeps the store busy end with kInterrupted.
  LoadGenerator(storage::TierStore& store, int64_t transfer_bytes, LoadMemory memory,
                StopRequest stop = StopRequest())
      : store_(store),
        transfer_bytes_(transfer_bytes),
        memory_(std::move(memory)),
        stop_(std::move(stop)) {}
  ~LoadGenerator();
  LoadGenerator(const LoadGenerator&) = delete;
  LoadGenerator& operator=(const LoadGenerator&) = delete;

  // The smallest amount of data that the generator needs in a store.
  static int64_t least_bytes(int64_t transfer_bytes) {
    return 2 * kLoadTransfersAtOnce * transfer_bytes;
  }
  // Reserves `tier_bytes` of the store and writes all of it, because a read of bytes that were
  // never written does not reach a drive. Call it once, before the other calls. `on_written`, if
  // not empty, gets the bytes written so far after every transfer.
  Status fill(int64_t tier_bytes, const std::function<void(int64_t)>& on_written = {});

  // Keeps the chosen directions busy for this time and returns their rates.
  Result<LoadRates> run(bool reads, bool writes, int64_t duration_ns);
  // Keeps the chosen directions busy until `is_over` returns true. It is called after every
  // transfer with the bytes moved so far. Returns the first failure of a transfer.
  Status keep_busy(bool reads, bool writes,
                   const std::function<bool(const LoadProgress&)>& is_over);

  // --- Single transfers ---

  // Starts a transfer with the lane's memory. The extent comes from next_extent(), or is a smaller
  // one.
  storage::TransferId submit(io::Direction direction, int32_t lane, const storage::Extent& extent,
                             storage::Priority priority = storage::Priority::kPlanned);
  Ending wait_for_ending();
  const storage::Extent& next_extent(io::Direction direction, int32_t lane);

 private:
  storage::TierStore& store_;
  const int64_t transfer_bytes_;
  const LoadMemory memory_;
  StopRequest stop_;
  SteadyClock clock_;
  // Each direction has its own half, in which each lane cycles through every third extent, so that
  // no two transfers use the same extent at the same time.
  std::array<std::vector<storage::Extent>, 2> extents_;
  std::array<std::array<size_t, kLoadTransfersAtOnce>, 2> next_ = {{{0, 1, 2}, {0, 1, 2}}};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::deque<Ending> endings_;
};

}  // namespace teraio::probe
