// The tiers of a run, and the rates with which its plans are made.
#pragma once

#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "device/device.h"
#include "hardware/hardware.h"
#include "runtime/run_drives.h"
#include "runtime/run_options.h"
#include "storage/tiers.h"

namespace teraio::runtime {

struct RunTiers {
  storage::Tiers tiers;
  hardware::Hardware hardware;
  std::vector<DriveShare> drive_shares;  // one entry per drive
};

// Measures the link to the device and the drives, and opens the tiers. The link of a device whose
// memory the host addresses has no limit: drives read and write that memory, and only the host tier
// copies. `options` has a device budget; `device` and `clock` must outlive the result. Fails as
// measure_link(), measure_drives() and storage::open_tiers() do. Threads: as Device.
Result<RunTiers> open_run_tiers(const RunOptions& options, device::Device& device,
                                const Clock& clock, const std::function<bool()>& is_interrupted);

}  // namespace teraio::runtime
