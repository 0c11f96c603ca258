// OpInfo: what the observer needs to know of an operator, read once from its schema.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>
#include <vector>

namespace teraio::pytorch {

struct OpInfo {
  std::string name;        // "aten::add_.Tensor"
  uint64_t name_hash = 0;  // the same in every process
  size_t argument_count = 0;
  size_t return_count = 0;
  std::vector<bool> is_write;     // per argument: it changes the bytes
  bool completes_results = true;  // false: an allocation whose bytes its caller fills in
  bool is_list_op = false;        // one of the foreach and fused ops: may run in pieces
  bool is_collective = false;     // goes on after it has returned: collective.h
  bool keeps_arguments = false;   // so may the object that it makes do (packed weights), unseen
};

// Stable for the process's life. Any thread; a lock is taken only for an op that the thread has not
// used of late.
const OpInfo& op_info(const c10::OperatorHandle& op);

}  // namespace teraio::pytorch
