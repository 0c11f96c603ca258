#include "running_op.h"

namespace teraio::pytorch {

constinit thread_local RunningOp* known_running_op = nullptr;

std::string_view current_op_name() {
  const RunningOp* running = known_running_op;
  if (running == nullptr || running->op == nullptr) return {};
  return running->op->name;
}

bool runs_uncaptured_op() {
  const RunningOp* running = known_running_op;
  return running != nullptr && running->op != nullptr && running->is_uncaptured;
}

}  // namespace teraio::pytorch
