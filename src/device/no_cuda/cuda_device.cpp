// The implementation for builds without a CUDA runtime: every call fails.
#include "device/cuda_device.h"

namespace teraio::device {
namespace {

Status built_without() {
  return Status(
      ErrorCode::kUnsupported,
      "cuda: this build has no CUDA: no CUDA runtime was found, or TERAIO_CUDA was off. Build "
      "it with one, or use the device cpu");
}

}  // namespace

Result<CudaFacts> inspect_cuda_device(int32_t) { return built_without(); }

Result<std::unique_ptr<Device>> make_cuda_device(CudaDeviceOptions) { return built_without(); }

}  // namespace teraio::device
