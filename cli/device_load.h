// DeviceLoad: a tier kept busy with a device's memory, to measure the way between them.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "base/units.h"
#include "device/device.h"
#include "device/host_memory.h"
#include "probe/tier_load.h"
#include "storage/tier_store.h"

namespace teraio::cli {

// As large as many tensors are.
inline constexpr int64_t kLoadTransferBytes = 64 * kMiB;

// One thread. The store and the device outlive it.
class DeviceLoad {
 public:
  // Takes 384 MiB of the device, and `tier_bytes` (at least as much) of the store, which it fills.
  static Result<std::unique_ptr<DeviceLoad>> open(storage::TierStore& store, device::Device& device,
                                                  int64_t tier_bytes);
  ~DeviceLoad();

  // Keeps the chosen directions busy for that long.
  Result<probe::LoadRates> run(bool reads, bool writes, int64_t duration_ns) {
    return load_->run(reads, writes, duration_ns);
  }

 private:
  explicit DeviceLoad(device::Device& device) : device_(device) {}
  Status take_memory();

  device::Device& device_;
  probe::LoadMemory memory_;
  std::unique_ptr<probe::TierLoad> load_;
};

// What bare copies of the device to and from `host` (four transfers' size) give, without a store.
// Takes 128 MiB of the device.
Result<probe::LoadRates> measure_bare_copies(device::Device& device, const device::HostMemory& host,
                                             bool reads, bool writes, int64_t duration_ns);

}  // namespace teraio::cli
