// The arithmetic of collectives, on the CPU. Ranks are reduced in their order, so that all have the
// same bits; numbers of 16 bits are added in fp32 and rounded once.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

#include "testing/cuda_emulation/nccl/message.h"

namespace teraio::testing::emulated_nccl {

// 0: no type.
size_t size_of(ncclDataType_t type);
// fp8 is moved, and never reduced.
bool can_be_reduced(ncclDataType_t type);

// What a rank's elements are multiplied by before they are added: a number of their type.
Bytes scalar_of(ncclDataType_t type, double value);
void scale(Bytes& elements, ncclDataType_t type, const Bytes& scalar);

// Writes to `result` what the inputs give, each of `count` elements. ncclAvg divides the sum of
// whole numbers; that of others has been scaled.
void reduce(const std::vector<const char*>& inputs, ncclDataType_t type, ncclRedOp_t op,
            size_t count, char* result);
bool is_divided_after(ncclDataType_t type);

}  // namespace teraio::testing::emulated_nccl
