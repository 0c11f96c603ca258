#include "device/cuda/current_device.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "device/cuda/cuda_status.h"

namespace teraio::device {
namespace {

using GetContextState = CUresult (*)(CUdevice, unsigned*, int*);

// Returns null where the driver has no such function.
GetContextState find_context_state() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion(
      "cuDevicePrimaryCtxGetState", &function, 12000, cudaEnableDefault, &found);
#else
  const cudaError_t error =
      cudaGetDriverEntryPoint("cuDevicePrimaryCtxGetState", &function, cudaEnableDefault, &found);
#endif
  const bool is_found = has_succeeded(error) && found == cudaDriverEntryPointSuccess;
  return is_found ? reinterpret_cast<GetContextState>(function) : nullptr;
}

// A thread that has never chosen a GPU has the first one as its current one. Choosing that one
// would create a context there, which takes hundreds of megabytes of a GPU that the process may
// never use.
bool has_context(int ordinal) {
  static const GetContextState get_state = find_context_state();
  unsigned flags = 0;
  int is_active = 1;
  if (get_state == nullptr || get_state(ordinal, &flags, &is_active) != CUDA_SUCCESS) return true;
  return is_active != 0;
}

}  // namespace

CurrentDevice::CurrentDevice(int32_t ordinal) {
  int current = ordinal;
  if (!has_succeeded(cudaGetDevice(&current)) || current == ordinal) return;
  if (!has_succeeded(cudaSetDevice(ordinal))) return;
  if (has_context(current)) previous_ = current;
}

CurrentDevice::~CurrentDevice() {
  if (previous_ >= 0) has_succeeded(cudaSetDevice(previous_));
}

}  // namespace teraio::device
