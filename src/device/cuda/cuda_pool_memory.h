// CUDA's own stream-ordered pool as a source of memory: for a CudaDevice without PyTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "device/cuda_device.h"

namespace teraio::device {

// `compute_stream`: of GPU `ordinal`, in whose order memory is given and taken back.
Result<std::unique_ptr<CudaMemorySource>> make_cuda_pool_memory(
    int32_t ordinal, std::function<cudaStream_t()> compute_stream);

}  // namespace teraio::device
