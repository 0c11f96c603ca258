#include "running_op.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace teraio::pytorch {

constinit thread_local RunningOp* known_running_op = nullptr;

ObservedParts::ObservedParts()
    : was_excluded_(c10::impl::tls_is_dispatch_key_excluded(kObserverKey)) {
  c10::impl::tls_set_dispatch_key_excluded(kObserverKey, false);
}

ObservedParts::~ObservedParts() {
  c10::impl::tls_set_dispatch_key_excluded(kObserverKey, was_excluded_);
}

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
