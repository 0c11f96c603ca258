// A GPU as the device, of the PyTorch that this is built for.
#pragma once

#include "device_backend.h"

namespace teraio::pytorch {

// kUnsupported, with the reason, where the build or the machine has none.
Result<std::unique_ptr<DeviceBackend>> make_cuda_backend(int32_t ordinal);

}  // namespace teraio::pytorch
