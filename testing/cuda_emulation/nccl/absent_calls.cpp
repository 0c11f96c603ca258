// Calls that the emulated NCCL does not have. PyTorch needs their names. The header of NCCL may not
// declare them. As C passes arguments, a function need not know those that it ignores.
#include "testing/cuda_emulation/nccl/last_error.h"

namespace {

constexpr int kInvalidUsage = 5;  // ncclInvalidUsage

int refuse_absent(const char* text) {
  teraio::testing::emulated_nccl::set_last_error(text);
  return kInvalidUsage;
}

}  // namespace

#define TERAIO_ABSENT(name) \
  int name() { return refuse_absent(#name ": the emulated NCCL does not have it"); }

extern "C" {

TERAIO_ABSENT(ncclCommDeregister)
TERAIO_ABSENT(ncclCommGetUniqueId)
TERAIO_ABSENT(ncclCommGrow)
TERAIO_ABSENT(ncclCommMemStats)
TERAIO_ABSENT(ncclCommRegister)
TERAIO_ABSENT(ncclCommResume)
TERAIO_ABSENT(ncclCommRevoke)
TERAIO_ABSENT(ncclCommShrink)
TERAIO_ABSENT(ncclCommSuspend)
TERAIO_ABSENT(ncclCommWindowDeregister)
TERAIO_ABSENT(ncclCommWindowRegister)
TERAIO_ABSENT(ncclDevCommCreate)
TERAIO_ABSENT(ncclDevCommDestroy)
TERAIO_ABSENT(ncclGather)
TERAIO_ABSENT(ncclGetLsaMultimemDevicePointer)
TERAIO_ABSENT(ncclGetPeerDevicePointer)
TERAIO_ABSENT(ncclGroupSimulateEnd)
TERAIO_ABSENT(ncclMemAlloc)
TERAIO_ABSENT(ncclMemFree)
TERAIO_ABSENT(ncclPutSignal)
TERAIO_ABSENT(ncclSignal)
TERAIO_ABSENT(ncclWaitSignal)
TERAIO_ABSENT(ncclWinGetUserPtr)

}  // extern "C"
