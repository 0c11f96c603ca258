// The ssd tier: one preallocated, unlinked extent file per directory, striped over all of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "io/device_path.h"
#include "storage/tier_store.h"

namespace teraio::storage {

struct SsdDirectory {
  std::filesystem::path path;
  int64_t read_bytes_per_second = 0;  // measured; stripe weights follow it. 0: unknown, equal
  int64_t write_bytes_per_second = 0;
};

enum class IoBackend : uint8_t { kAuto, kUring, kThreads };

struct SsdStoreOptions {
  int64_t capacity_bytes = 0;      // over all directories; the files are preallocated to hold it
  int64_t reserve_free_bytes = 0;  // left free on every file system
  int64_t request_bytes = int64_t{1} << 20;
  int32_t queue_depth = 8;          // requests in flight per drive and direction
  int32_t planned_write_depth = 2;  // of these, of planned writes: an urgent read waits for them
  IoBackend backend = IoBackend::kAuto;
  bool checksum = false;             // xxh3 of every chunk, checked on every read
  bool allow_ram_directory = false;  // tests only: tmpfs is otherwise refused
  // Whose memory transfers name, where the CPU cannot address it: they go through GPUDirect
  // Storage or are staged. nullptr, or a device in host memory: I/O goes to that memory. Outlives
  // the store.
  device::Device* device = nullptr;
  // Host memory for the staging rings, where there have to be any: a store that needs more is
  // refused.
  int64_t staging_limit_bytes = std::numeric_limits<int64_t>::max();
  io::GpuDirect gpu_direct = io::GpuDirect::kAuto;
  std::filesystem::path cufile_library;  // empty: searched for
};

// Beside the staging rings (TierCounters::staging_bytes), a store takes less than 2 MiB of memory
// per drive and 1 KiB per extent, however much it moves. A failure names the directory and what was
// expected: missing, not a directory, read-only, full, on a RAM file system. `clock` outlives the
// store.
Result<std::unique_ptr<TierStore>> open_ssd_store(const std::vector<SsdDirectory>& directories,
                                                  const SsdStoreOptions& options,
                                                  const Clock& clock);

}  // namespace teraio::storage
