#include "storage/tiers.h"

#include <utility>

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
  Result<device::HostMemory> pool = map_host_pool(pool_bytes, device);
  if (!pool.ok()) return pool.status();
  if (options.measure_pool) TERAIO_RETURN_IF_ERROR(options.measure_pool(*pool));
  auto host = open_host_store(std::move(*pool), device, clock);
  if (!host.ok()) return host.status();
  tiers.host = std::move(*host);
  return tiers;
}

}  // namespace teraio::storage
