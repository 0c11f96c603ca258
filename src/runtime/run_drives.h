// The drives of a run: their measured rates, this rank's share of each, and what the run teaches
// about them.
//
// Threads: any. Failures name the directory and what was expected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/status.h"
#include "hardware/hardware.h"
#include "runtime/run_options.h"
#include "storage/ssd_store.h"
#include "storage/tier_store.h"

namespace teraio::runtime {

// A drive that several ranks may share.
struct DriveShare {
  std::filesystem::path directory;
  int32_t rank_count = 1;
  hardware::Drive drive;  // one rank's share of its capacity and rates
};

struct RunDrives {
  // One entry per directory of the options, also where several are on one drive: the store uses the
  // first of them and logs the others.
  std::vector<storage::SsdDirectory> directories;
  std::vector<DriveShare> shares;  // one entry per drive
  int64_t request_latency_ns = 0;  // of the slowest drive
};

// Measures the drives that have no cached measurement, which takes seconds. Fails with kInterrupted
// when `is_interrupted`, which it asks about every 100 ms meanwhile, returns true.
Result<RunDrives> measure_drives(const RunOptions& options,
                                 const std::function<bool()>& is_interrupted);

// Returns the machine with the rates that its drives have reached in the run, where it has loaded
// them for long enough. `ssd` has the counters of the run's ssd tier.
hardware::Hardware with_reached_rates(hardware::Hardware hardware,
                                      const storage::TierCounters& ssd);

// Keeps the rates that drives had under load in the run, so that later runs plan with them: not of
// a drive that ranks share, of which this one has seen a part, and not with checksums, which slow
// transfers down. `ssd` has the counters of the run's ssd tier. A failure is logged.
void keep_learned_rates(const RunOptions& options, const std::vector<DriveShare>& shares,
                        const storage::TierCounters& ssd);

}  // namespace teraio::runtime
