// ReplayCheck: whether replays make the bytes that were discarded, of which it keeps a hash
// (ReplayState::discarded_hash).
//
// Threads: under the engine's lock. Each call waits until the device has computed the bytes and
// copies them to the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "device/device_order.h"
#include "engine/engine_counters.h"
#include "engine/live_tensor.h"
#include "engine/recipe.h"

namespace teraio::engine {

class ReplayCheck {
 public:
  // Both outlive this object.
  ReplayCheck(device::DeviceOrder& device, ReplayCounters& counters)
      : device_(device), counters_(counters) {}

  // The tensor's bytes are about to be discarded. Fails when they cannot be read.
  Status note(LiveTensor& tensor);

  // A replay has made `made` in place of the tensor. Fails when the bytes differ, with a message
  // that names the op and the tensor, or when they cannot be read.
  Status compare(const LiveTensor& tensor, const LiveTensor& made);

 private:
  Result<uint64_t> hash_of(const LiveTensor& tensor);

  device::DeviceOrder& device_;
  ReplayCounters& counters_;
  std::vector<std::byte> on_host_;  // a part of a tensor
};

}  // namespace teraio::engine
