// StorageWalk: finds the runtime's tensors behind an op's arguments and results.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/variable.h>

#include "iteration/signature.h"
#include "op_info.h"
#include "storages/active_session.h"

namespace teraio::pytorch {

struct TensorHandle;

// Returns a reference to the tensor in the value. The const overload of toTensor() returns a copy,
// which costs an atomic increment.
inline const at::Tensor& tensor_in(const c10::IValue& value) {
  return const_cast<c10::IValue&>(value).toTensor();
}

// A tangent is part of a tensor's autograd metadata, or comes from the tensor that it is a view of.
inline bool may_have_tangent(const at::Tensor& tensor) {
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(
      tensor.unsafeGetTensorImpl()->autograd_meta());
  return meta != nullptr && (meta->fw_grad_ != nullptr || meta->is_view_);
}

enum class OpSide : uint8_t {
  // The arguments of an outermost op. The thread runs no other op that could hold an address, so
  // storages may be adopted.
  kArguments,
  kNestedArguments,  // the arguments of an op within another one: storages are not adopted
  kCaptured,  // of an op that a graph captures: what the session does not manage stays in place
  kResults,   // a result that is a view of an argument does not count as a write to it
};

// Adds the tensors of the session's runtime behind IValues to frame.uses, each once, and combines
// shapes and types into a signature. The storages that it finds are remembered (see
// remember_storage()), so their tensors may be offloaded afterwards. For the arguments of an
// outermost op, it adopts storages in PyTorch's own memory (see adopt()), unless the session is a
// dry run.
//
// Threads: one, which keeps `session` and `frame` alive. visit() takes the runtime's lock and may
// take the GIL, so the caller must not hold the runtime's lock.
class StorageWalk {
 public:
  StorageWalk(ActiveSession& session, engine::OpFrame& frame, uint64_t structure, OpSide side)
      : session_(session), frame_(frame), structure_(structure), side_(side) {}

  // Visits a tensor, the tensors of a list, or a storage, and ignores every other value, nested
  // lists included. `is_write`: the op changes the bytes. Raises when a storage is to be adopted
  // and the budget has no room for it, and when the Python code of a wrapper raises.
  void visit(const c10::IValue& value, bool is_write) {
    if (value.isTensor())
      visit_tensor(tensor_in(value), is_write);
    else if (value.isList() || value.isStorage())
      visit_others(value, is_write);
  }
  void visit(const at::Tensor& tensor, bool is_write) {
    may_have_tangents_ |= may_have_tangent(tensor);
    visit_tensor(tensor, is_write);
  }
  // Whether a tensor that has been visited may have a tangent (forward-mode differentiation).
  bool may_have_tangents() const { return may_have_tangents_; }
  // Returns the signature of the arguments that have been visited (OpSide::kArguments). It is the
  // same in every process.
  iteration::OpSignature signature() const { return {structure_, sizes_}; }

 private:
  void visit_others(const c10::IValue& value, bool is_write);
  void visit_tensor(const at::Tensor& tensor, bool is_write);
  void add_to_signature(const c10::TensorImpl& impl);
  void visit_inner_tensors(const at::Tensor& tensor, bool is_write);
  bool is_opaque(const c10::TensorImpl& impl, c10::StorageImpl& storage) const;
  // Returns null when the session's runtime does not manage the storage. The pointer is valid until
  // the next call.
  engine::Use* visit_storage(c10::StorageImpl& storage, bool is_write);
  TensorHandle* adopt_if_possible(c10::StorageImpl& storage);
  void keep_captured(c10::StorageImpl& storage);
  engine::Use& add_use(engine::LiveTensor& tensor, bool is_write);

  ActiveSession& session_;
  engine::OpFrame& frame_;
  uint64_t structure_;
  uint64_t sizes_ = iteration::kEmptySignature;
  OpSide side_;
  bool may_have_tangents_ = false;
};

// Returns whether `value` is or lists a wrapper around other tensors (see is_wrapper()). In a dry
// run the observer then skips the op and observes the ops that the wrapper's dispatch runs.
bool has_wrapper(const c10::IValue& value);

// Adds the tensors of the session's runtime behind `value`, an argument of a nested op, to `found`
// unless it has them already. Remembers storages as StorageWalk does, and adopts none. May take the
// runtime's lock and the GIL.
void find_tensors(const ActiveSession& session, const c10::IValue& value,
                  std::vector<engine::LiveTensor*>& found);
void find_tensors(const ActiveSession& session, const at::Tensor& tensor,
                  std::vector<engine::LiveTensor*>& found);

}  // namespace teraio::pytorch
