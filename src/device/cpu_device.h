// CpuDevice: host memory as a device with a hard budget.
//
// Blocks of a page or more come from an Arena. The device commits physical pages up to the budget,
// as huge pages where the system provides them, and keeps free pages for reuse, because page faults
// cost more than the I/O that offloading exists for.
//
// Blocks smaller than a page come from the C library and count against the same budget. When the
// budget has no room for one, the device returns free pages to the system.
#pragma once

#include <memory>

#include "device/device.h"

namespace teraio::device {

// Returns kUnsupported if the system refuses to reserve the address range. A negative budget counts
// as 0.
Result<std::unique_ptr<Device>> make_cpu_device(int64_t budget_bytes);

}  // namespace teraio::device
