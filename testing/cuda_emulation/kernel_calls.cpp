// CUDA's calls that register and launch kernels. The code of a kernel cannot run here: operators
// are replaced above the runtime (operators/), and what is launched nevertheless is an error that
// names the kernel.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <unordered_map>

#include "testing/cuda_emulation/launch.h"
#include "testing/cuda_emulation/machine.h"

namespace {

using namespace teraio::testing::emulated_cuda;

struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes;
  void* stream;
};
thread_local CallConfiguration configuration;

// Names of kernels by their address on the host. Libraries register them while they load.
std::unordered_map<const void*, std::string>& kernel_names() {
  static auto* names = new std::unordered_map<const void*, std::string>();
  return *names;
}

// The kernel of torch.cuda._sleep.
cudaError_t launch_sleep(cudaStream_t stream, int64_t cycle_count) {
  const std::chrono::nanoseconds duration(cycle_count);
  return static_cast<cudaError_t>(
      launch(stream, "sleep", [=] { std::this_thread::sleep_for(duration); }));
}

cudaError_t launch_kernel(const void* function, void** arguments, cudaStream_t stream) {
  const auto found = kernel_names().find(function);
  const std::string name = found == kernel_names().end() ? "unknown" : found->second;
  if (name.find("spin_kernel") != std::string::npos)
    return launch_sleep(stream, *static_cast<int64_t*>(arguments[0]));
  std::fprintf(stderr, "emulated CUDA: the kernel %.300s cannot run\n", name.c_str());
  return note(cudaErrorNotSupported);
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* nothing = nullptr;
  return &nothing;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  kernel_names().emplace(host, name);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     struct CUstream_st* stream) {
  configuration = {grid, block, shared_bytes, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared_bytes = configuration.shared_bytes;
  *static_cast<void**>(stream) = configuration.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void** arguments, size_t,
                               cudaStream_t stream) {
  return launch_kernel(kernel, arguments, stream);
}

cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void** arguments, size_t,
                             cudaStream_t stream) {
  return launch_kernel(function, arguments, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3, dim3, void** arguments, size_t,
                                        cudaStream_t stream) {
  return launch_kernel(function, arguments, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  return launch_kernel(function, arguments, config->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->binaryVersion = attributes->ptxVersion = 90;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* count, const void*, int, size_t) {
  *count = 2;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* count, const void*, int,
                                                                   size_t, unsigned) {
  *count = 2;
  return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) {
  return cudaSuccess;
}

}  // extern "C"
