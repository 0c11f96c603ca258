// The host tier: a pool of memory with a hard limit, filled and emptied by copies.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "device/device.h"
#include "storage/tier_store.h"

namespace teraio::storage {

// `device` and `clock` outlive the store. Never holds more than limit_bytes of memory, its own
// bookkeeping aside.
Result<std::unique_ptr<TierStore>> open_host_store(int64_t limit_bytes, device::Device& device,
                                                   const Clock& clock);

}  // namespace teraio::storage
