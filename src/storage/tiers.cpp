#include "storage/tiers.h"

#include "io/drive_io.h"
#include "storage/host_store.h"

namespace teraio::storage {

Result<Tiers> open_tiers(const TierOptions& options, device::Device& device, const Clock& clock) {
  Tiers tiers;
  int64_t pool_bytes = options.host_limit_bytes;
  if (!options.directories.empty()) {
    SsdStoreOptions ssd_options = options.ssd;
    ssd_options.device = &device;
    if (options.host_limit_bytes > 0) ssd_options.staging_limit_bytes = options.host_limit_bytes;
    auto ssd = open_ssd_store(options.directories, ssd_options, clock);
    if (!ssd.ok()) return ssd.status();
    pool_bytes -= (*ssd)->counters().staging_bytes;
    tiers.ssd = std::move(*ssd);
  }
  if (pool_bytes < io::kBlockBytes) return tiers;
  auto host = open_host_store(pool_bytes, device, clock);
  if (!host.ok()) return host.status();
  tiers.host = std::move(*host);
  return tiers;
}

}  // namespace teraio::storage
