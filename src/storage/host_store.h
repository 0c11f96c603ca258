// The host tier: a pool of host memory with a hard limit. Transfers are copies on the device.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "device/device.h"
#include "device/host_memory.h"
#include "storage/tier_store.h"

namespace teraio::storage {

// `device` and `clock` must outlive the store. The store holds at most `limit_bytes` of memory
// besides its bookkeeping. Returns kInvalidArgument if the limit is below one block, and
// kOutOfMemory if the system refuses the pool.
Result<std::unique_ptr<TierStore>> open_host_store(int64_t limit_bytes, device::Device& device,
                                                   const Clock& clock);

// Its two halves: the pool, and the store in it. `pool` is mapped for `device`.
Result<device::HostMemory> map_host_pool(int64_t limit_bytes, device::Device& device);
Result<std::unique_ptr<TierStore>> open_host_store(device::HostMemory pool, device::Device& device,
                                                   const Clock& clock);

}  // namespace teraio::storage
