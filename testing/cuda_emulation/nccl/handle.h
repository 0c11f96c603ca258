// What an ncclComm_t points to, and results of calls.
#pragma once

#include <nccl.h>

#include <map>
#include <memory>
#include <string>

#include "testing/cuda_emulation/nccl/communicator.h"

// NCCL's own name of the type.
struct ncclComm {
  std::shared_ptr<teraio::testing::emulated_nccl::Communicator> communicator;
  std::map<int, teraio::testing::emulated_nccl::Scalar> scalars;  // by the number of the reduction
  int next_op = ncclNumOps;
};

namespace teraio::testing::emulated_nccl {

// The result of a call, whose text ncclGetLastError() gives.
ncclResult_t give(const Outcome& outcome);
inline ncclResult_t refuse(ncclResult_t result, std::string text) {
  return give({result, std::move(text)});
}
// Whether the handle is that of a communicator that has not been destroyed.
bool is_communicator(ncclComm_t handle);

}  // namespace teraio::testing::emulated_nccl
