// DeviceLoadGenerator: keeps transfers between a tier and device memory busy, to measure their
// rates.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "base/units.h"
#include "device/device.h"
#include "device/host_memory.h"
#include "probe/load_generator.h"
#include "storage/tier_store.h"

namespace teraio::cli {

// The size of one transfer, which is typical of tensors.
inline constexpr int64_t kLoadTransferBytes = 64 * kMiB;

// One thread may use it. The store and the device must outlive it.
class DeviceLoadGenerator {
 public:
  // Allocates 384 MiB on the device and `tier_bytes` (at least as much) in the store, which it
  // fills.
  static Result<std::unique_ptr<DeviceLoadGenerator>> open(storage::TierStore& store,
                                                           device::Device& device,
                                                           int64_t tier_bytes);
  ~DeviceLoadGenerator();

  // Keeps the chosen directions busy for `duration_ns`.
  Result<probe::LoadRates> run(bool reads, bool writes, int64_t duration_ns) {
    return load_->run(reads, writes, duration_ns);
  }

 private:
  explicit DeviceLoadGenerator(device::Device& device) : device_(device) {}
  Status take_memory();

  device::Device& device_;
  probe::LoadMemory memory_;
  std::unique_ptr<probe::LoadGenerator> load_;
};

// Measures plain copies between the device and `host` (the size of four transfers), without a
// store. Allocates 128 MiB on the device.
Result<probe::LoadRates> measure_bare_copies(device::Device& device, const device::HostMemory& host,
                                             bool reads, bool writes, int64_t duration_ns);

}  // namespace teraio::cli
