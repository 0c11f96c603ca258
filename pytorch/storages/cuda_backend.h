// The backend that manages a GPU's memory. CMake chooses the implementation: cuda/cuda_backend.cpp,
// or no_cuda/cuda_backend.cpp for builds without CUDA.
#pragma once

#include "storages/device_backend.h"

namespace teraio::pytorch {

// Returns a backend for GPU `ordinal`, after initializing PyTorch's CUDA state. Fails with
// kUnsupported and the reason when the build has no CUDA support or the machine has no such GPU.
Result<std::unique_ptr<DeviceBackend>> make_cuda_backend(int32_t ordinal);

}  // namespace teraio::pytorch
