// Converts a failed call of the CUDA runtime to a Status.
//
// The runtime remembers each thread's last error until it is asked for it, and PyTorch, which uses
// the same copy of the runtime, would take ours for one of its own. Whoever handles the error of a
// call clears it.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string_view>

#include "base/status.h"

namespace teraio::device {

// Clears the calling thread's last error when `error` is one.
inline bool has_succeeded(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess;
}

// After these errors every call of the process fails in the same way. They may be of any work that
// was enqueued before, also of the program's.
inline bool is_device_failure(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

// `what` names the attempted action, and the GPU where that matters: "copy to the host". Running
// out of memory becomes kOutOfMemory, an error that stays kDeviceFailed, any other one kIoError.
// Clears the error.
inline Status cuda_status(cudaError_t error, std::string_view what) {
  if (has_succeeded(error)) return {};
  const ErrorCode code = error == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory
                         : is_device_failure(error)         ? ErrorCode::kDeviceFailed
                                                            : ErrorCode::kIoError;
  return Status(code, fmt::format("cuda: {}: {} ({})", what, cudaGetErrorString(error),
                                  cudaGetErrorName(error)));
}

}  // namespace teraio::device
