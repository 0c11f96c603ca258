// The CUDA backend of builds without a CUDA runtime, or for a PyTorch without CUDA or of a version
// that cuda/cuda_backend.cpp does not support.
#include "storages/cuda_backend.h"

namespace teraio::pytorch {

Result<std::unique_ptr<DeviceBackend>> make_cuda_backend(int32_t) {
  return Status(
      ErrorCode::kUnsupported,
      "cuda: this build has no CUDA: it needs a CUDA build of PyTorch 2.11 or 2.15 when it is "
      "built, and a CUDA toolkit where that is not for CUDA 13");
}

}  // namespace teraio::pytorch
