// How fast a device copies to and from pinned host memory.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/status.h"
#include "device/device.h"

namespace teraio::probe {

struct LinkRate {
  int64_t read_bytes_per_second = 0;  // towards the device
  int64_t write_bytes_per_second = 0;
};

// The best of a few copies each way, alone. Takes 256 MiB of the device, or a quarter of its
// budget, and as much of the host for some tens of milliseconds.
Result<LinkRate> measure_link(device::Device& device, const Clock& clock);

}  // namespace teraio::probe
