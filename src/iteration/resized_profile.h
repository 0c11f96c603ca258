// Profiles of iterations that were not measured: they run the ops of measured ones over other
// sizes.
//
// Pure functions.
#pragma once

#include <cstdint>

#include "iteration/profile.h"

namespace teraio::iteration {

// Whether the two run the same ops on the same tensors: only sizes, times, when tensors die, and
// which arguments a replay has by value may differ. Tensors that correspond have the same index.
bool are_alike(const Profile& a, const Profile& b);

// Returns a profile with the larger size of each tensor and the longer time of each op of two that
// are alike. A plan for it is safe for both, and for all combinations of their sizes. An op reads
// what it reads in one of them.
Profile envelope(const Profile& a, const Profile& b);

// Returns by how many bytes the tensors of `profile` exceed those of `model`, which is like it.
int64_t excess_bytes(const Profile& profile, const Profile& model);

// Returns the bytes of all tensors that are born in the iteration.
int64_t born_bytes(const Profile& profile);

// Returns the bytes of the first `count` tensors that op `op` names, without persistent ones.
int64_t bytes_at(const Profile& profile, trace::OpIndex op, size_t count);

}  // namespace teraio::iteration
