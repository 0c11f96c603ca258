// CpuDevice: host memory as a device with a hard budget.
//
// Large blocks come from one reserved range of addresses. Physical pages are added to it up to the
// budget, with huge pages where the system gives them, and are then reused and never returned while
// the budget stays: page faults cost more than the I/O that this exists for. When free memory is
// enough but scattered, the pages of several free pieces are moved together under one range of
// addresses (mremap; no byte is copied), so that fragmentation does not cost memory.
// Blocks below a page come from the C library and are counted in the same budget.
#pragma once

#include <memory>

#include "device/device.h"

namespace teraio::device {

// kUnsupported when the address range cannot be reserved.
Result<std::unique_ptr<Device>> make_cpu_device(int64_t budget_bytes);

}  // namespace teraio::device
