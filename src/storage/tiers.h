// The tiers of a run: drives and host memory, within one limit of host memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "device/device.h"
#include "device/host_memory.h"
#include "storage/ssd_store.h"
#include "storage/tier_store.h"

namespace teraio::storage {

struct TierOptions {
  std::vector<SsdDirectory> directories;  // empty: no ssd tier
  SsdStoreOptions ssd;                    // its device and staging limit are not used
  // The most host memory for both tiers, besides their bookkeeping. The pool of the host tier gets
  // what the staging rings leave. 0: no host tier, and staging without a limit.
  int64_t host_limit_bytes = 0;
  // Called with the pool of the host tier before the tier uses it, to measure it. A failure is that
  // of open_tiers(). May be empty.
  std::function<Status(const device::HostMemory&)> measure_pool = {};
};

// A tier that does not exist is null.
struct Tiers {
  std::unique_ptr<TierStore> ssd;
  std::unique_ptr<TierStore> host;
};

// Opens the tiers. `device` and `clock` must outlive the result. Returns kInvalidArgument, with
// both numbers, if the limit is too small for the staging rings; other failures are those of
// open_ssd_store() and open_host_store().
Result<Tiers> open_tiers(const TierOptions& options, device::Device& device, const Clock& clock);

}  // namespace teraio::storage
