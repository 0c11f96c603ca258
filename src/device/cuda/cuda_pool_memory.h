// CUDA's stream-ordered memory pool as the source of a CudaDevice without PyTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "device/cuda_device.h"

namespace teraio::device {

// Creates a pool on GPU `ordinal`. Memory is allocated and freed in the order of the stream that
// `compute_stream` returns. Fails if CUDA cannot create the pool.
Result<std::unique_ptr<CudaMemorySource>> make_cuda_pool_memory(
    int32_t ordinal, std::function<cudaStream_t()> compute_stream);

}  // namespace teraio::device
