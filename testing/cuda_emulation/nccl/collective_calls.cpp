// NCCL's collectives, transfers, groups and reductions.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>
#include <utility>

#include "testing/cuda_emulation/nccl/group.h"
#include "testing/cuda_emulation/nccl/handle.h"
#include "testing/cuda_emulation/nccl/reduction.h"

namespace {

using namespace teraio::testing::emulated_nccl;

// Replaces a reduction that multiplies by what it stands for. False: there is no such reduction.
bool resolve_op(Call& call, const ncclComm& comm) {
  if (call.op == ncclAvg && !is_divided_after(call.type)) {
    call.scalar.on_host = scalar_of(call.type, 1.0 / comm.communicator->count());
    call.op = ncclSum;
  }
  if (call.op < ncclNumOps) return call.op >= 0;
  const auto found = comm.scalars.find(call.op);
  if (found == comm.scalars.end()) return false;
  call.scalar = found->second;
  call.op = ncclSum;
  return true;
}

std::string complaint_about(Call& call, const ncclComm& comm) {
  const std::string name = std::string(call.name) + ": ";
  const int count = comm.communicator->count();
  const bool has_peer =
      has_root(call.kind) || call.kind == CallKind::kSend || call.kind == CallKind::kReceive;
  if (has_peer && (call.root < 0 || call.root >= count))
    return name + "rank " + std::to_string(call.root) + " is not one of " + std::to_string(count);
  if (size_of(call.type) == 0) return name + "no such type: " + std::to_string(call.type);
  if (!is_reduction(call.kind)) return "";
  if (!can_be_reduced(call.type)) return name + "fp8 is not reduced by the emulated NCCL";
  return resolve_op(call, comm) ? "" : name + "no such reduction: " + std::to_string(call.op);
}

ncclResult_t submit(Call call, ncclComm_t handle, cudaStream_t stream) {
  Group& group = Group::of_this_thread();
  if (!is_communicator(handle))
    return give(group.refuse({ncclInvalidArgument, "not a communicator"}));
  if (const std::string complaint = complaint_about(call, *handle); !complaint.empty())
    return give(group.refuse({ncclInvalidArgument, complaint}));
  if (call.count == 0) return ncclSuccess;
  return give(group.submit(handle->communicator, std::move(call), stream));
}

}  // namespace

extern "C" {

// --- Collectives --------------------------------------------------------------------------------

ncclResult_t ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return submit({CallKind::kAllReduce, "ncclAllReduce", input, output, count, type, op, {}}, comm,
                stream);
}

ncclResult_t ncclReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return submit({CallKind::kReduce, "ncclReduce", input, output, count, type, op, {}, root}, comm,
                stream);
}

ncclResult_t ncclReduceScatter(const void* input, void* output, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return submit({CallKind::kReduceScatter, "ncclReduceScatter", input, output, count, type, op, {}},
                comm, stream);
}

ncclResult_t ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return submit(
      {CallKind::kBroadcast, "ncclBroadcast", input, output, count, type, ncclSum, {}, root}, comm,
      stream);
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclAllGather(const void* input, void* output, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return submit({CallKind::kAllGather, "ncclAllGather", input, output, count, type, ncclSum, {}},
                comm, stream);
}

ncclResult_t ncclAlltoAll(const void* input, void* output, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
  return submit({CallKind::kAllToAll, "ncclAlltoAll", input, output, count, type, ncclSum, {}},
                comm, stream);
}

ncclResult_t ncclSend(const void* input, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return submit({CallKind::kSend, "ncclSend", input, nullptr, count, type, ncclSum, {}, peer}, comm,
                stream);
}

ncclResult_t ncclRecv(void* output, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return submit({CallKind::kReceive, "ncclRecv", nullptr, output, count, type, ncclSum, {}, peer},
                comm, stream);
}

// --- Groups -------------------------------------------------------------------------------------

ncclResult_t ncclGroupStart() {
  Group::of_this_thread().start();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() { return give(Group::of_this_thread().end()); }

// --- Reductions ---------------------------------------------------------------------------------

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  if (!is_communicator(comm)) return refuse(ncclInvalidArgument, "not a communicator");
  Scalar made;
  const char* begin = static_cast<const char*>(scalar);
  if (residence == ncclScalarDevice)
    made.on_device = scalar;
  else
    made.on_host.assign(begin, begin + size_of(type));
  comm->scalars[comm->next_op] = std::move(made);
  *op = static_cast<ncclRedOp_t>(comm->next_op++);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  if (!is_communicator(comm) || comm->scalars.erase(op) == 0)
    return refuse(ncclInvalidArgument, "no such reduction");
  return ncclSuccess;
}

}  // extern "C"
