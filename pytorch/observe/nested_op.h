// Ops inside of the outermost op of a thread. They count as part of it: what they use besides is
// pinned until the outermost op ends.
#pragma once

#include <ATen/SavedTensorHooks.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DispatchKeySet.h>
#include <torch/csrc/autograd/forward_grad.h>

#include "observe/observed_thread.h"
#include "op_info.h"
#include "storages/active_session.h"

namespace teraio::pytorch {

// Pins the arguments of a nested op that is about to run. Nearly always they are resident already,
// because the outermost op of this thread has pinned or created them. A pin by an op of another
// thread does not count, because that op may end first.
//
// Threads: the one that runs the op. It must not hold the runtime's lock.
class NestedPins {
 public:
  // All outlive the object.
  NestedPins(ActiveSession& session, ObservedThread& thread, const OpInfo& info);

  // An argument; `is_write`: the op changes its bytes. Raises as throw_status() does when a tensor
  // cannot be restored.
  void visit(const c10::IValue& argument, bool is_write);
  void visit(const at::Tensor& argument, bool is_write);
  // As StorageWalk::may_have_tangents().
  bool may_have_tangents() const { return may_have_tangents_; }

 private:
  void pin_found(bool is_write);
  void pin(engine::LiveTensor* tensor, bool is_write);

  ActiveSession& session_;
  ObservedThread& thread_;
  const OpInfo& info_;
  OpCapture* capture_ = nullptr;  // of a kernel that calls the op
  bool may_have_tangents_ = false;
};

// The key to exclude while an operator of PyTorch runs, whose own tensors are pinned or new: the
// observer's where the calls inside of it need no look, and none elsewhere. `keys` are those of the
// operator's call, and nobody captures it. The calls need no look where
// - the operator has kernels, none of them in Python, which use its arguments, its results and what
//   they make. Autograd saves nothing else of it. What one makes that is composed of others,
//   autograd may save: then it needs an owner.
// - `keys` are those of plain tensors on a CPU or a GPU, and autograd's. A mode, a transform, a
//   wrapper, or autocast, whose cache has tensors of earlier ops, may use others.
// - no hook packs what autograd saves: it is Python code.
// - no argument can have a tangent, which autograd's kernels use besides. `may_have_tangents`: of
//   the arguments; then no level of forward-mode differentiation may be open, which takes a lock.
//
// A signal's handler that runs inside is observed (ObservedParts). The guard of storages raises
// where something else uses an offloaded tensor.
inline c10::DispatchKeySet unobserved_inside(const OpInfo& info, c10::DispatchKeySet keys,
                                             bool may_have_tangents) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet kPlain =
      c10::DispatchKeySet({DispatchKey::Dense, DispatchKey::BackendSelect,
                           DispatchKey::ADInplaceOrView, DispatchKey::AutogradFunctionality,
                           kObserverKey}) |
      c10::DispatchKeySet({c10::BackendComponent::CPUBit, c10::BackendComponent::CUDABit});
  if (info.is_composed || info.has_python_kernel.load(std::memory_order_relaxed)) return {};
  if ((keys.raw_repr() & ~kPlain.raw_repr()) != 0) return {};
  if (!at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) return {};
  if (may_have_tangents && torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr) return {};
  return c10::DispatchKeySet(kObserverKey);
}

// Unpins what the thread's nested ops have used.
void unpin_nested(ActiveSession& session, ObservedThread& thread);

}  // namespace teraio::pytorch
