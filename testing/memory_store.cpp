#include "testing/memory_store.h"

#include <fmt/format.h>

#include <utility>

#include "base/units.h"
#include "storage/striped_store.h"

namespace teraio::testing {

std::unique_ptr<storage::TierStore> open_memory_store(const MemoryStoreOptions& options,
                                                      VirtualClock& clock) {
  std::vector<storage::DriveSpec> drives;
  for (MemoryDriveOptions drive : options.drives) {
    const auto index = static_cast<int32_t>(drives.size());
    drive.capacity_bytes = align_up(drive.capacity_bytes, io::kBlockBytes);
    drive.seed += static_cast<uint64_t>(index);
    storage::DriveSpec& spec = drives.emplace_back();
    spec.name = fmt::format("memory{}", index);
    spec.capacity_bytes = drive.capacity_bytes;
    spec.weight =
        static_cast<double>(drive.rates.read_bytes_per_second + drive.rates.write_bytes_per_second);
    spec.io = make_memory_io(drive, clock);
    if (options.faults) spec.io = make_faulty_io(std::move(spec.io), options.faults(index));
  }
  storage::StripedStoreOptions store_options;
  store_options.request_bytes = options.request_bytes;
  store_options.queue_depth = options.queue_depth;
  store_options.checksum = options.checksum;
  return std::make_unique<storage::StripedStore>(std::move(drives), store_options, clock);
}

}  // namespace teraio::testing
