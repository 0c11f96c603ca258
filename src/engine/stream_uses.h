// StreamUses: tensors that other streams of the device than compute's use.
//
// The owner pins a tensor when another stream is told to work on it, and unpins it when the stream
// has done what it was told by then. This is what PyTorch calls record_stream().
//
// Threads: under the lock of its owner.
#pragma once

#include <deque>
#include <vector>

#include "device/device_order.h"
#include "engine/use.h"

namespace teraio::engine {

class StreamUses {
 public:
  using Tensors = std::vector<LiveTensor*>;

  // `device` outlives the object.
  explicit StreamUses(device::DeviceOrder& device) : device_(device) {}

  bool empty() const { return uses_.empty(); }

  // `stream` as for Device::record_on. The tensors are pinned.
  void record(void* stream, Tensors tensors);

  // The tensors whose streams are done by now, to be unpinned. Does not wait.
  Tensors take_passed();

  // Waits for the oldest entry and gives its tensors. Empty when the wait failed: their end is
  // never known, so they stay pinned. Requires that there is an entry.
  Tensors wait_for_oldest();

 private:
  struct Entry {
    device::Event end;
    Tensors tensors;
  };

  device::DeviceOrder& device_;
  std::deque<Entry> uses_;  // in the order of recording
};

}  // namespace teraio::engine
