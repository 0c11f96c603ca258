// CountingDevice: memory that is counted and does not exist.
//
// For running a program on tensors without bytes: every block has an address of its own, which
// tells it from others and must not be followed. Copies fail. There is no rounding: a block counts
// its size.
#pragma once

#include <memory>

#include "device/device.h"

namespace teraio::device {

std::unique_ptr<Device> make_counting_device(int64_t budget_bytes);

}  // namespace teraio::device
