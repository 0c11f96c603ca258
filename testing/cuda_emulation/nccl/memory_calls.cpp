// NCCL's calls of memory, and those that the emulated NCCL does not have.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

#include "testing/cuda_emulation/nccl/group.h"
#include "testing/cuda_emulation/nccl/handle.h"
#include "testing/cuda_emulation/nccl/last_error.h"

namespace {

using namespace teraio::testing::emulated_nccl;

ncclResult_t refuse_absent(const char* name) {
  return refuse(ncclInvalidUsage, std::string(name) + ": the emulated NCCL does not have it");
}

ncclResult_t result_of(cudaError_t error) {
  if (error == cudaSuccess) return ncclSuccess;
  return refuse(ncclUnhandledCudaError, cudaGetErrorName(error));
}

}  // namespace

extern "C" {

ncclResult_t ncclMemAlloc(void** memory, size_t size_bytes) {
  return result_of(cudaMalloc(memory, size_bytes));
}

ncclResult_t ncclMemFree(void* memory) { return result_of(cudaFree(memory)); }

// Memory needs no registration here: any can be reached.
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* memory, size_t, void** handle) {
  if (!is_communicator(comm)) return refuse(ncclInvalidArgument, "not a communicator");
  *handle = memory;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return is_communicator(comm) ? ncclSuccess : refuse(ncclInvalidArgument, "not a communicator");
}

ncclResult_t ncclCommWindowRegister(ncclComm_t, void*, size_t, ncclWindow_t*, int) {
  return refuse_absent("ncclCommWindowRegister");
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) {
  return refuse_absent("ncclCommWindowDeregister");
}

// Of nccl_device.h, which declares them for kernels.
ncclResult_t ncclDevCommCreate(ncclComm_t, const void*, void*) {
  return refuse_absent("ncclDevCommCreate");
}

ncclResult_t ncclDevCommDestroy(ncclComm_t, const void*) {
  return refuse_absent("ncclDevCommDestroy");
}

// Ends the group without running it.
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t*) {
  const ncclResult_t result = refuse_absent("ncclGroupSimulateEnd");
  Group& group = Group::of_this_thread();
  group.refuse({result, last_error()});
  return give(group.end());
}

}  // extern "C"
