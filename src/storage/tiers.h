// The tiers of a run: drives and host memory, within one limit of host memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "device/device.h"
#include "storage/ssd_store.h"
#include "storage/tier_store.h"

namespace teraio::storage {

struct TierOptions {
  std::vector<SsdDirectory> directories;  // none: no ssd tier
  SsdStoreOptions ssd;                    // but for device and staging limit
  // The most host memory that both take, their bookkeeping aside: the pool of the host tier has
  // what the staging rings of the drives leave. 0: no host tier, and as much staging as a device
  // needs.
  int64_t host_limit_bytes = 0;
};

// Null where there is no such tier.
struct Tiers {
  std::unique_ptr<TierStore> ssd;
  std::unique_ptr<TierStore> host;
};

// For `device`, which outlives the result, as `clock` does. kInvalidArgument, with both numbers,
// when the limit does not hold the staging rings.
Result<Tiers> open_tiers(const TierOptions& options, device::Device& device, const Clock& clock);

}  // namespace teraio::storage
