// The backend that manages a GPU's memory, for the PyTorch that this build links.
#pragma once

#include "device_backend.h"

namespace teraio::pytorch {

// Returns a backend for GPU `ordinal`. Fails with kUnsupported and the reason when the build has no
// CUDA support or the machine has no GPU.
Result<std::unique_ptr<DeviceBackend>> make_cuda_backend(int32_t ordinal);

}  // namespace teraio::pytorch
