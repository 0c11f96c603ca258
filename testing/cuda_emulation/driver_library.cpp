// libcuda.so.1, as far as PyTorch's libcaffe2_nvrtc.so asks for it: pinned memory needs to know
// that a context is active. Nothing can be compiled or launched.
#include <cuda.h>

#define TERAIO_ABSENT(name, ...) \
  CUresult name(__VA_ARGS__) { return CUDA_ERROR_NOT_SUPPORTED; }

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }

CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* is_active) {
  *flags = 0;
  *is_active = 1;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = nullptr;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = nullptr;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }

CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "not supported by the emulated machine";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 0;
  return CUDA_SUCCESS;
}

TERAIO_ABSENT(cuFuncGetAttribute, int*, CUfunction_attribute, CUfunction)
TERAIO_ABSENT(cuFuncSetAttribute, CUfunction, CUfunction_attribute, int)
TERAIO_ABSENT(cuFuncSetCacheConfig, CUfunction, CUfunc_cache)
TERAIO_ABSENT(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
              unsigned, unsigned, CUstream, void**, void**)
TERAIO_ABSENT(cuLaunchCooperativeKernel, CUfunction, unsigned, unsigned, unsigned, unsigned,
              unsigned, unsigned, unsigned, CUstream, void**)
TERAIO_ABSENT(cuModuleGetFunction, CUfunction*, CUmodule, const char*)
TERAIO_ABSENT(cuModuleLoad, CUmodule*, const char*)
TERAIO_ABSENT(cuModuleLoadData, CUmodule*, const void*)
TERAIO_ABSENT(cuModuleLoadDataEx, CUmodule*, const void*, unsigned, CUjit_option*, void**)
TERAIO_ABSENT(cuModuleUnload, CUmodule)

}  // extern "C"
