// UnmarkedArguments: finds an operator that changes an argument without a mark in its schema. The
// session would take a copy on a tier for the argument's bytes, and lose the change.
//
// Threads: the one that runs the op, whose arguments are resident.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "op_info.h"

namespace teraio::pytorch {

class UnmarkedArguments {
 public:
  // Hashes the bytes of the tensors in `arguments` that have no mark. Reads all of them.
  UnmarkedArguments(const OpInfo& info, std::span<const c10::IValue> arguments);

  // The op has run. Raises a RuntimeError that names the op and the argument whose bytes differ.
  void check() const;

 private:
  struct Hashed {
    at::Tensor tensor;
    size_t argument;  // its position
    uint64_t hash;
  };

  const OpInfo& info_;
  std::vector<Hashed> hashed_;
};

}  // namespace teraio::pytorch
