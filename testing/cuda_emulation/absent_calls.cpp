// CUDA's calls that the emulated machine does not have. PyTorch's libraries need their names.
#include <cuda_runtime_api.h>

#include "testing/cuda_emulation/machine.h"

#define TERAIO_ABSENT(name, ...)                                        \
  cudaError_t name(__VA_ARGS__) {                                       \
    return teraio::testing::emulated_cuda::note(cudaErrorNotSupported); \
  }

extern "C" {

TERAIO_ABSENT(cudaDeviceGetGraphMemAttribute, int, cudaGraphMemAttributeType, void*)
TERAIO_ABSENT(cudaDeviceSetGraphMemAttribute, int, cudaGraphMemAttributeType, void*)
TERAIO_ABSENT(cudaGetSymbolAddress, void**, const void*)
TERAIO_ABSENT(cudaGraphAddNode, cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*,
              const cudaGraphEdgeData*, size_t, cudaGraphNodeParams*)
TERAIO_ABSENT(cudaGraphConditionalHandleCreate, cudaGraphConditionalHandle*, cudaGraph_t, unsigned,
              unsigned)
TERAIO_ABSENT(cudaGraphNodeGetDependencies, cudaGraphNode_t, cudaGraphNode_t*, cudaGraphEdgeData*,
              size_t*)
TERAIO_ABSENT(cudaGraphDebugDotPrint, cudaGraph_t, const char*, unsigned)
TERAIO_ABSENT(cudaGraphRetainUserObject, cudaGraph_t, cudaUserObject_t, unsigned, unsigned)
TERAIO_ABSENT(cudaIpcCloseMemHandle, void*)
TERAIO_ABSENT(cudaIpcGetMemHandle, cudaIpcMemHandle_t*, void*)
TERAIO_ABSENT(cudaIpcOpenMemHandle, void**, cudaIpcMemHandle_t, unsigned)
TERAIO_ABSENT(cudaIpcGetEventHandle, cudaIpcEventHandle_t*, cudaEvent_t)
TERAIO_ABSENT(cudaIpcOpenEventHandle, cudaEvent_t*, cudaIpcEventHandle_t)
TERAIO_ABSENT(cudaKernelSetAttributeForDevice, cudaKernel_t, cudaFuncAttribute, int, int)
TERAIO_ABSENT(cudaLibraryGetGlobal, void**, size_t*, cudaLibrary_t, const char*)
TERAIO_ABSENT(cudaLibraryGetKernel, cudaKernel_t*, cudaLibrary_t, const char*)
TERAIO_ABSENT(cudaLibraryGetKernelCount, unsigned*, cudaLibrary_t)
TERAIO_ABSENT(cudaLibraryGetManaged, void**, size_t*, cudaLibrary_t, const char*)
TERAIO_ABSENT(cudaLibraryGetUnifiedFunction, void**, cudaLibrary_t, const char*)
TERAIO_ABSENT(cudaLibraryLoadData, cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned,
              cudaLibraryOption*, void**, unsigned)
TERAIO_ABSENT(cudaLibraryLoadFromFile, cudaLibrary_t*, const char*, cudaJitOption*, void**,
              unsigned, cudaLibraryOption*, void**, unsigned)
TERAIO_ABSENT(cudaLibraryUnload, cudaLibrary_t)
TERAIO_ABSENT(cudaMallocManaged, void**, size_t, unsigned)
TERAIO_ABSENT(cudaStreamBeginCaptureToGraph, cudaStream_t, cudaGraph_t, const cudaGraphNode_t*,
              const cudaGraphEdgeData*, size_t, cudaStreamCaptureMode)
TERAIO_ABSENT(cudaStreamUpdateCaptureDependencies, cudaStream_t, cudaGraphNode_t*,
              const cudaGraphEdgeData*, size_t, unsigned)
TERAIO_ABSENT(cudaUserObjectCreate, cudaUserObject_t*, void*, cudaHostFn_t, unsigned, unsigned)
TERAIO_ABSENT(cudaUserObjectRelease, cudaUserObject_t, unsigned)

}  // extern "C"
