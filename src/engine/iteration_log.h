// IterationLog: what each iteration took, moved and held.
//
// Threads: under the lock of its owner.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "engine/engine_counters.h"
#include "engine/engine_options.h"

namespace teraio::engine {

struct IterationRecord {
  enum class Mode : uint8_t { kOnDemand, kPlanned, kDeviated };
  int64_t duration_ns = 0;
  int64_t stall_read_ns = 0;
  int64_t stall_memory_ns = 0;
  int64_t ssd_bytes_read = 0;
  int64_t ssd_bytes_written = 0;
  int64_t host_bytes_read = 0;
  int64_t host_bytes_written = 0;
  int64_t device_peak_bytes = 0;
  int64_t op_count = 0;
  int64_t planned_op_count = 0;  // those of them that followed a plan
  int64_t pattern = 0;           // PatternSummary::id; 0: none that was kept
  Mode mode = Mode::kOnDemand;
};

struct MemorySample {
  int64_t time_ns = 0;  // from the iteration's start
  int64_t device_bytes = 0;
};

class IterationLog {
 public:
  // About 10 MB.
  static constexpr size_t kIterationsMax = 100'000;

  // `options` outlives the log; its tiers may go meanwhile. The log keeps the newest
  // `iterations_max` iterations.
  explicit IterationLog(const EngineOptions& options, size_t iterations_max = kIterationsMax)
      : options_(options), iterations_max_(iterations_max) {}

  // Resets the device's peak. `counters`: the engine's, now and at the end.
  void start_iteration(int64_t now_ns, const EngineCounters& counters);
  void end_iteration(int64_t now_ns, const EngineCounters& counters, int64_t op_count,
                     int64_t planned_op_count, IterationRecord::Mode mode);
  // The last iterations were parts: `counts` tells how many of the one that runs, of the one before
  // it, and so on; there are so many.
  void join(std::span<const int64_t> counts);
  // Of the last iteration.
  void set_pattern(int64_t pattern) { iterations_.back().pattern = pattern; }

  // The device holds another amount than at the last sample.
  bool is_sample_due() const {
    return samples_.empty() || samples_.back().device_bytes != options_.device->allocated_bytes();
  }
  void add_sample(int64_t now_ns) {
    samples_.push_back({now_ns - start_ns_, options_.device->allocated_bytes()});
  }

  // The iteration does not include the last `duration_ns`.
  void leave_out(int64_t duration_ns) { start_ns_ += duration_ns; }

  // From the iteration with the index `first` on, without those that are no longer kept.
  std::vector<IterationRecord> iterations(size_t first = 0) const;
  int64_t last_duration_ns() const { return iterations_.back().duration_ns; }
  // How many have ended, also those that are no longer kept.
  int64_t iteration_count() const {
    return static_cast<int64_t>(forgotten_count_ + iterations_.size());
  }
  // Of the last whole iteration.
  const std::vector<MemorySample>& samples() const { return last_samples_; }

 private:
  IterationRecord take_newest(int64_t count);

  const EngineOptions& options_;
  int64_t start_ns_ = 0;
  EngineCounters counters_at_start_;
  std::array<storage::TierCounters, kTierCount> tiers_at_start_;
  const size_t iterations_max_;
  std::deque<IterationRecord> iterations_;  // the newest
  size_t forgotten_count_ = 0;
  IterationRecord joined_;  // what the one that runs has from others
  std::vector<MemorySample> samples_;
  std::vector<MemorySample> last_samples_;
};

}  // namespace teraio::engine
