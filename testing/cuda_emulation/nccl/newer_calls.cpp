// Calls that the emulated NCCL does not have and the header of NCCL may not, either: PyTorch 2.15
// needs their names. As C passes arguments, a function need not know those that it ignores.
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

TERAIO_ABSENT(ncclCommGetUniqueId)
TERAIO_ABSENT(ncclCommGrow)
TERAIO_ABSENT(ncclCommMemStats)
TERAIO_ABSENT(ncclCommResume)
TERAIO_ABSENT(ncclCommRevoke)
TERAIO_ABSENT(ncclCommSuspend)
TERAIO_ABSENT(ncclGather)
TERAIO_ABSENT(ncclGetLsaMultimemDevicePointer)
TERAIO_ABSENT(ncclGetPeerDevicePointer)
TERAIO_ABSENT(ncclPutSignal)
TERAIO_ABSENT(ncclSignal)
TERAIO_ABSENT(ncclWaitSignal)
TERAIO_ABSENT(ncclWinGetUserPtr)

}  // extern "C"
