// The backend that manages PyTorch's CPU memory under a budget.
#pragma once

#include "storages/device_backend.h"

namespace teraio::pytorch {

// Returns the only instance, which lives until the process ends.
DeviceBackend& cpu_backend();

}  // namespace teraio::pytorch
