// OpInfo: what the observer needs to know about an operator, read once from its schema.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace teraio::pytorch {

struct OpInfo {
  std::string name;        // "aten::add_.Tensor"
  uint64_t name_hash = 0;  // the same in every process
  size_t argument_count = 0;
  size_t return_count = 0;
  // Per argument, 0 or 1: the op changes its bytes. Every op reads it, and a vector of bools packs
  // bits, which costs more to read than to store. Where the schema is no evidence, every argument
  // counts as changed: see is_evidence() in op_info.cpp.
  std::vector<uint8_t> is_write;
  bool is_checked = false;        // --verify compares the arguments that the op must not change
  bool completes_results = true;  // false: an allocation whose bytes its caller fills in
  bool is_list_op = false;        // one of the foreach and fused ops: may run in slices
  bool is_collective = false;  // may continue after the op has returned: see observe/collective.h
  bool leaves_bytes_undefined = false;  // of its results
  bool waits = false;                   // for the bytes of its argument, which a collective writes
  bool is_random = false;               // draws from a generator
  // Of a random op: the argument which tells that it draws nothing, when it is 0.
  std::optional<size_t> dropout_argument;
  bool is_composed = false;  // of other ops, which autograd sees, on some device at least
  // A program has registered a kernel in Python, which may use tensors that it is not given.
  mutable std::atomic<bool> has_python_kernel = false;
  bool has_known_effects = false;  // it changes what its schema tells, and nothing else
  // What the dispatcher runs on a device.
  struct Kernels {
    bool is_composed = false;  // other ops, and no kernel of its own
    bool casts = false;        // under autocast: the op again, after casts
  };
  Kernels cpu_kernels;
  Kernels gpu_kernels;
  bool keeps_arguments = false;  // its result may use them later without an op (packed weights)
};

// Returns the information about `op`, which stays valid until the process ends. Threads: any. The
// function takes a lock only for an op that the calling thread has not used recently.
const OpInfo& op_info(const c10::OperatorHandle& op);

// The operator of this name ("aten::mm") has a kernel in Python from now on. Threads: any.
void note_python_kernel(const std::string& name);

// The arguments of an op that is about to run: the last values of the stack.
inline std::span<const c10::IValue> arguments_of(const OpInfo& info,
                                                 const torch::jit::Stack& stack) {
  return std::span(stack).last(info.argument_count);
}

}  // namespace teraio::pytorch
