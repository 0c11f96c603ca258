// LoadMeter: how fast a drive is while only reads, only writes, or both keep it busy. These are the
// loads that a probe makes, so that a run measures its drives as a probe does.
#pragma once

#include <array>
#include <cstdint>

#include "storage/tier_store.h"

namespace teraio::storage {

enum class Load : uint8_t { kReads, kWrites, kBoth };

// Threads: one at a time.
class LoadMeter {
 public:
  // Adds a time under one load, and bytes that were moved in it or, with no time, in the last one.
  void add(Load load, int64_t duration_ns, int64_t bytes_read, int64_t bytes_written);

  // The mean over the first eight seconds, from then on weighted towards the recent ones.
  const LoadedRates& rates(Load load) const { return samples_[static_cast<size_t>(load)].rates; }

 private:
  struct Sample {
    int64_t duration_ns = 0;
    int64_t bytes_read = 0;
    int64_t bytes_written = 0;
    LoadedRates rates;
  };

  static void end(Sample& sample);

  std::array<Sample, 3> samples_;  // by load
};

}  // namespace teraio::storage
