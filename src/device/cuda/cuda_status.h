// Converts a failed call of the CUDA runtime to a Status.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string_view>

#include "base/status.h"

namespace teraio::device {

// `what` names the attempted action, and the GPU where that matters: "copy to the host". Running
// out of memory becomes kOutOfMemory, any other error kIoError.
inline Status cuda_status(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  const ErrorCode code =
      error == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kIoError;
  return Status(code, fmt::format("cuda: {}: {} ({})", what, cudaGetErrorString(error),
                                  cudaGetErrorName(error)));
}

}  // namespace teraio::device
