// CUDA's calls about errors.
#include <cuda_runtime_api.h>

#include <utility>

#include "testing/cuda_emulation/machine.h"

namespace {

using namespace teraio::testing::emulated_cuda;

cudaError_t failure_of_machine() {
  Machine& machine = Machine::get();
  const Lock lock(machine.mutex);
  return machine.executor.failure();
}

}  // namespace

extern "C" {

// A failure of the device stays.
cudaError_t cudaGetLastError() {
  const cudaError_t failure = failure_of_machine();
  const cudaError_t error = std::exchange(last_error, cudaSuccess);
  return failure != cudaSuccess ? failure : error;
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t failure = failure_of_machine();
  return failure != cudaSuccess ? failure : last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
#define TERAIO_NAMED(name) \
  if (error == name) return #name;
  TERAIO_NAMED(cudaSuccess)
  TERAIO_NAMED(cudaErrorInvalidValue)
  TERAIO_NAMED(cudaErrorMemoryAllocation)
  TERAIO_NAMED(cudaErrorNotReady)
  TERAIO_NAMED(cudaErrorInvalidDevice)
  TERAIO_NAMED(cudaErrorInvalidResourceHandle)
  TERAIO_NAMED(cudaErrorLaunchFailure)
  TERAIO_NAMED(cudaErrorHostMemoryAlreadyRegistered)
  TERAIO_NAMED(cudaErrorHostMemoryNotRegistered)
  TERAIO_NAMED(cudaErrorNotSupported)
  TERAIO_NAMED(cudaErrorIllegalState)
  TERAIO_NAMED(cudaErrorCapturedEvent)
  TERAIO_NAMED(cudaErrorStreamCaptureUnsupported)
  TERAIO_NAMED(cudaErrorStreamCaptureInvalidated)
  return "an error that the emulation does not give";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return cudaGetErrorName(error);
  }
}

}  // extern "C"
