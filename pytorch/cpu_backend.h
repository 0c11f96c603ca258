// The backend that manages PyTorch's CPU memory under a budget.
#pragma once

#include "device_backend.h"

namespace teraio::pytorch {

DeviceBackend& cpu_backend();

}  // namespace teraio::pytorch
