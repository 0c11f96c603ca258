// CUDA's calls that the emulated machine does not have. PyTorch's libraries need their names.
#include <cuda_runtime_api.h>

#include "testing/cuda_emulation/machine.h"

#define TERAIO_ABSENT(name, ...)                                        \
  cudaError_t name(__VA_ARGS__) {                                       \
    return teraio::testing::emulated_cuda::note(cudaErrorNotSupported); \
  }

extern "C" {

TERAIO_ABSENT(cudaGetSymbolAddress, void**, const void*)
TERAIO_ABSENT(cudaGraphNodeGetDependencies, cudaGraphNode_t, cudaGraphNode_t*, cudaGraphEdgeData*,
              size_t*)
TERAIO_ABSENT(cudaGraphDebugDotPrint, cudaGraph_t, const char*, unsigned)
TERAIO_ABSENT(cudaIpcCloseMemHandle, void*)
TERAIO_ABSENT(cudaIpcGetMemHandle, cudaIpcMemHandle_t*, void*)
TERAIO_ABSENT(cudaIpcOpenMemHandle, void**, cudaIpcMemHandle_t, unsigned)
TERAIO_ABSENT(cudaIpcGetEventHandle, cudaIpcEventHandle_t*, cudaEvent_t)
TERAIO_ABSENT(cudaIpcOpenEventHandle, cudaEvent_t*, cudaIpcEventHandle_t)

}  // extern "C"
