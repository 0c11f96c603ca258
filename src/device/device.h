// Device: memory under a hard byte budget, and the order of work on it.
//
// The engine allocates only here, and PyTorch's allocations on the device come from the same place.
// There is one implementation for the CPU and one for CUDA; the caller chooses at run time. Code
// that needs only memory takes a DeviceMemory, and code that only copies or waits a DeviceOrder.
#pragma once

#include <cstdint>
#include <string_view>

#include "device/device_memory.h"
#include "device/device_order.h"
#include "device/host_pinning.h"

namespace teraio::device {

class MemorySegments;
class OpTimer;

class Device : public DeviceMemory, public DeviceOrder {
 public:
  virtual std::string_view name() const = 0;  // "cpu", "cuda:0"

  // True if the CPU, and therefore direct file I/O, can address the memory: no staging is needed.
  virtual bool is_host_addressable() const = 0;

  // The host's NUMA node that is nearest to the device; -1 if it is unknown, or if no node is
  // nearer than the others.
  virtual int32_t numa_node() const { return -1; }

  // What a device may have beside these. It lives as long as the device; nullptr: there is none.

  // Copies need no pinned host memory where there is none.
  virtual HostPinning* host_pinning() { return nullptr; }

  // The segments that contain the device's blocks. Code that registers device memory with a library
  // for I/O registers whole segments. The first call starts to track them, for blocks that are
  // allocated afterwards. Threads: as allocate.
  virtual MemorySegments* segments() { return nullptr; }

  // Measures the durations of ops; where there is none, the caller's own clock does. Threads: as
  // order_after().
  virtual OpTimer* op_timer() { return nullptr; }
};

}  // namespace teraio::device
