// LoadGenerator: a tier kept busy, to measure it. Transfers of one size, several at a time in each
// direction, so that it never waits for us.
//
// One thread; no transfer is under way between two calls of it but what submit() was told.
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
#include "probe/sustained_rate.h"
#include "storage/tier_store.h"

namespace teraio::probe {

inline constexpr int32_t kLoadTransfersAtOnce = 3;

// Where the bytes of transfers are, by direction and lane: as many lanes as transfers at once.
using LoadMemory = std::array<std::vector<std::byte*>, 2>;

class LoadGenerator {
 public:
  struct Ending {
    io::Direction direction;
    int32_t lane;
    storage::Completion completion;
  };

  // `store` outlives it, and so does `memory`, every piece of which holds a transfer.
  LoadGenerator(storage::TierStore& store, int64_t transfer_bytes, LoadMemory memory)
      : store_(store), transfer_bytes_(transfer_bytes), memory_(std::move(memory)) {}
  ~LoadGenerator();
  LoadGenerator(const LoadGenerator&) = delete;
  LoadGenerator& operator=(const LoadGenerator&) = delete;

  // What it needs of a store at least.
  static int64_t least_bytes(int64_t transfer_bytes) {
    return 2 * kLoadTransfersAtOnce * transfer_bytes;
  }
  // Reserves `tier_bytes` and writes all of it: reads of bytes that were never written do not reach
  // a drive. Once, before the others.
  Status fill(int64_t tier_bytes);

  // Keeps the chosen directions busy for that long.
  Result<LoadRates> run(bool reads, bool writes, int64_t duration_ns);
  // Until `is_over`, which sees what has been moved after every transfer.
  Status keep_busy(bool reads, bool writes,
                   const std::function<bool(const LoadProgress&)>& is_over);

  // --- One by one ---

  // Of the lane's memory. An extent of the load's own, of next_extent(), or a smaller one.
  void submit(io::Direction direction, int32_t lane, const storage::Extent& extent,
              storage::Priority priority = storage::Priority::kPlanned);
  Ending wait_for_ending();
  const storage::Extent& next_extent(io::Direction direction);

 private:
  storage::TierStore& store_;
  const int64_t transfer_bytes_;
  const LoadMemory memory_;
  SteadyClock clock_;
  // Each direction goes round its own half: no transfer meets another on the same extent.
  std::array<std::vector<storage::Extent>, 2> extents_;
  std::array<size_t, 2> next_ = {};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::deque<Ending> endings_;
};

}  // namespace teraio::probe
