// The ssd tier without drives: in memory, on virtual time, with faults.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "storage/tier_store.h"
#include "testing/faulty_io.h"
#include "testing/memory_io.h"

namespace teraio::testing {

struct MemoryStoreOptions {
  std::vector<MemoryDriveOptions> drives;  // weighted by their rates
  int64_t request_bytes = int64_t{1} << 20;
  int32_t queue_depth = 8;
  bool checksum = true;
  // Returns the schedule for the drive with this index. If empty, there are no faults.
  std::function<FaultSchedule(int32_t drive)> faults;
};

// `clock` must outlive the store, which advances it.
std::unique_ptr<storage::TierStore> open_memory_store(const MemoryStoreOptions& options,
                                                      VirtualClock& clock);

}  // namespace teraio::testing
