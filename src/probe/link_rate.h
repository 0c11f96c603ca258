// Measures how fast a device copies to and from host memory.
#pragma once

#include "base/clock.h"
#include "base/rates.h"
#include "base/status.h"
#include "device/device.h"
#include "device/host_memory.h"

namespace teraio::probe {

// Returns the best of several copies in each direction. Where both are slower when they copy at
// once, the rates are those: a plan may count on them whatever the other direction does.
// Temporarily allocates 256 MiB, or a quarter of the device's budget if that is less, on the device
// and as much pinned host memory. Returns kOutOfMemory if either is not available; other failures
// are those of copies. Threads: as Device.
Result<Rates> measure_link(device::Device& device, const Clock& clock);

// The same for memory that is there already, pinned or not; changes what lies at its end.
Result<Rates> measure_link(device::Device& device, const Clock& clock,
                           const device::HostMemory& host);

}  // namespace teraio::probe
