// The ssd tier: one preallocated, unlinked extent file per drive, with extents striped over all of
// them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/rates.h"
#include "base/status.h"
#include "io/device_path.h"
#include "storage/tier_store.h"

namespace teraio::storage {

struct SsdDirectory {
  std::filesystem::path path;
  Rates rates;  // measured; they determine the drive's weight
};

enum class IoBackend : uint8_t { kAuto, kUring, kThreads };

struct SsdStoreOptions {
  int64_t capacity_bytes = 0;      // over all directories; the files are preallocated
  int64_t reserve_free_bytes = 0;  // stays free on every file system
  // Requests through host memory are up to 4 MiB where all drives are so fast that those take no
  // longer, and the rings take at most an eighth of staging_limit_bytes.
  int64_t request_bytes = int64_t{1} << 20;
  int32_t queue_depth = 8;          // requests in flight per drive and direction
  int32_t planned_write_depth = 2;  // of these, planned writes: urgent reads wait for them
  IoBackend backend = IoBackend::kAuto;
  bool checksum = false;             // xxh3 of every chunk, compared on every read
  bool allow_ram_directory = false;  // for tests: tmpfs is refused otherwise
  // A drive that has not answered a request for this long is left alone until it answers
  // (TierStore::fail_unanswered()). Of a write, the time includes the wait for its device event.
  // 0: no limit.
  int64_t io_timeout_ns = 0;
  // The device whose memory the transfers use. If the CPU cannot address that memory, transfers use
  // GPUDirect Storage or staging. nullptr stands for host memory, which I/O uses directly. The
  // device must outlive the store.
  device::Device* device = nullptr;
  // The most host memory for staging rings. A store that needs more is refused.
  int64_t staging_limit_bytes = std::numeric_limits<int64_t>::max();
  io::GpuDirect gpu_direct = io::GpuDirect::kAuto;
  std::filesystem::path cufile_library;  // empty: see check_cufile()
};

// Opens a store with one extent file per drive; a second directory on the same drive is ignored
// with a warning. Files that killed processes have left in the directories are removed. Besides the
// staging rings (TierCounters::staging_bytes), a store uses less than 2 MiB of memory per drive and
// 1 KiB per extent, however much it moves. Fails with a message that names the directory and what
// was expected, for example if the directory is missing, is not a directory, is read-only, is full,
// or is on a RAM file system. Refuses options out of range with kInvalidArgument. `clock` must
// outlive the store.
Result<std::unique_ptr<TierStore>> open_ssd_store(const std::vector<SsdDirectory>& directories,
                                                  const SsdStoreOptions& options,
                                                  const Clock& clock);

}  // namespace teraio::storage
