// Call: one call of a collective, and what its ranks exchange for it.
//
// Each rank sends to itself as to the others, and puts together what it has received: pieces one
// after the other, or their sum.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "testing/cuda_emulation/nccl/message.h"

namespace teraio::testing::emulated_nccl {

// By rank, the others' numbers are those of the communicator. A transfer between two is one kind.
enum class CallKind : int32_t {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSend,
  kReceive,
};

// What ncclRedOpCreatePreMulSum made, or ncclAvg stands for: inputs are multiplied first.
struct Scalar {
  Bytes on_host;                    // or
  const void* on_device = nullptr;  // read when the collective runs
  bool is_none() const { return on_host.empty() && on_device == nullptr; }
};

struct Call {
  CallKind kind;
  const char* name;  // of the function
  const void* input = nullptr;
  void* output = nullptr;
  size_t count = 0;  // as the function has it
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;  // of reductions; one that was made is a sum
  Scalar scalar;             // likewise
  int root = -1;             // or the peer
};

// A part of the input, or of the output.
struct Piece {
  int peer;
  size_t offset_bytes;
  Label label;
};

struct Exchange {
  std::vector<Piece> sends;
  std::vector<Piece> receives;
  size_t input_bytes = 0;
  size_t output_bytes = 0;
};

bool is_reduction(CallKind kind);
bool has_root(CallKind kind);

// What rank `rank` of `count` sends and receives.
Exchange exchange_of(const Call& call, int rank, int count);

}  // namespace teraio::testing::emulated_nccl
