// DeviceLoad: a tier kept busy with a device's memory, to measure the way between them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/units.h"
#include "device/device.h"
#include "storage/drive_load.h"
#include "storage/host_memory.h"
#include "storage/tier_store.h"

namespace teraio::tools {

// As large as many tensors are; each way has a few under way at once, so that nobody waits for us.
inline constexpr int64_t kLoadTransferBytes = 64 * kMiB;
inline constexpr int32_t kLoadTransfersAtOnce = 3;

// One thread. The store and the device outlive it.
class DeviceLoad {
 public:
  // Takes 384 MiB of the device, and `tier_bytes` (at least as much) of the store, which it fills:
  // reads of bytes that were never written do not reach a drive.
  static Result<std::unique_ptr<DeviceLoad>> open(TierStore& store, Device& device,
                                                  int64_t tier_bytes);
  ~DeviceLoad();

  // Keeps the chosen directions busy for that long.
  Result<LoadRates> run(bool reads, bool writes, int64_t duration_ns);

 private:
  struct Ending {
    Direction direction;
    int32_t lane;
    Status status;
  };

  DeviceLoad(TierStore& store, Device& device) : store_(store), device_(device) {}
  Status take_memory();
  Status reserve(int64_t tier_bytes);
  Status fill();
  const Extent& next_extent(Direction direction);
  void submit(Direction direction, int32_t lane, const Extent& extent);
  Ending wait_for_ending();

  TierStore& store_;
  Device& device_;
  SteadyClock clock_;
  std::vector<std::byte*> memory_[2];  // per direction and lane
  std::vector<Extent> extents_[2];     // each direction goes round its own
  size_t next_[2] = {0, 0};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::deque<Ending> endings_;
};

// What bare copies of the device to and from `host` (four transfers' size) give, without a store.
// Takes 128 MiB of the device.
Result<LoadRates> measure_bare_copies(Device& device, const HostMemory& host, bool reads,
                                      bool writes, int64_t duration_ns);

}  // namespace teraio::tools
