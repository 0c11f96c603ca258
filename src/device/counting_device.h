// CountingDevice: a device that counts memory without providing any.
//
// It serves dry runs on tensors without bytes. Every block has an address of its own that only
// identifies it and must not be dereferenced. Copies fail with kUnsupported. Sizes are not rounded.
// Threads: as Device.
#pragma once

#include <memory>

#include "device/device.h"

namespace teraio::device {

std::unique_ptr<Device> make_counting_device(int64_t budget_bytes);

}  // namespace teraio::device
