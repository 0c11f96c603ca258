#include "runtime/run_tiers.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "probe/link_rate.h"

namespace teraio::runtime {
namespace {

// The rate of one thread that copies host memory. Only its ratio to the drives' rates matters.
constexpr int64_t kHostCopyBytesPerSecond = 5'000'000'000;
constexpr int64_t kUnlimitedLinkBytesPerSecond = 1'000'000'000'000;

// Returns room for a job of eight times the budget, but at most half of the free space, so that
// other programs and runs find room on the drive.
int64_t default_ssd_capacity(const RunOptions& options, const hardware::Hardware& hardware) {
  const int64_t wanted_bytes = std::max<int64_t>(2 * kGiB, 8 * options.device_budget_bytes);
  return std::min(wanted_bytes, ssd_capacity_bytes(hardware) / 2);
}

Status measure_device_link(device::Device& device, const Clock& clock,
                           hardware::Hardware& hardware) {
  hardware.device_link = {kUnlimitedLinkBytesPerSecond, kUnlimitedLinkBytesPerSecond};
  hardware.host.rates = {kHostCopyBytesPerSecond, kHostCopyBytesPerSecond};
  if (device.is_host_addressable()) return {};
  const Result<Rates> rates = probe::measure_link(device, clock);
  if (!rates.ok()) return rates.status();
  hardware.device_link = *rates;
  hardware.host.rates = *rates;
  return {};
}

// The pool is large, and may be pinned in part only: its own rates count.
Status measure_host_tier(device::Device& device, const Clock& clock, const device::HostMemory& pool,
                         hardware::Hardware& hardware) {
  if (device.is_host_addressable()) return {};
  const Result<Rates> rates = probe::measure_link(device, clock, pool);
  if (!rates.ok()) return rates.status();
  hardware.host.rates = *rates;
  return {};
}

storage::TierOptions tier_options(const RunOptions& options, const hardware::Hardware& hardware) {
  storage::TierOptions tier_options;
  tier_options.ssd.capacity_bytes = options.ssd_capacity_bytes > 0
                                        ? options.ssd_capacity_bytes
                                        : default_ssd_capacity(options, hardware);
  tier_options.ssd.checksum = options.checksum;
  tier_options.ssd.io_timeout_ns = options.io_timeout_ns;
  tier_options.host_limit_bytes = options.host_limit_bytes;
  return tier_options;
}

}  // namespace

Result<RunTiers> open_run_tiers(const RunOptions& options, device::Device& device,
                                const Clock& clock, const std::function<bool()>& is_interrupted) {
  RunTiers opened;
  hardware::Hardware& hardware = opened.hardware;
  hardware.name = "this machine";
  hardware.device_memory_bytes = options.device_budget_bytes;
  TERAIO_RETURN_IF_ERROR(measure_device_link(device, clock, hardware));
  Result<RunDrives> drives = measure_drives(options, is_interrupted);
  if (!drives.ok()) return drives.status();
  for (const DriveShare& share : drives->shares) hardware.drives.push_back(share.drive);
  hardware.request_latency_ns = drives->request_latency_ns;
  opened.drive_shares = std::move(drives->shares);
  storage::TierOptions tier_options = runtime::tier_options(options, hardware);
  tier_options.directories = std::move(drives->directories);
  tier_options.measure_pool = [&](const auto& pool) {
    return measure_host_tier(device, clock, pool, hardware);
  };
  Result<storage::Tiers> tiers = storage::open_tiers(tier_options, device, clock);
  if (!tiers.ok()) return tiers.status();
  opened.tiers = std::move(*tiers);
  if (opened.tiers.host != nullptr)
    hardware.host.capacity_bytes = opened.tiers.host->counters().capacity_bytes;
  return opened;
}

}  // namespace teraio::runtime
