// StorageWalk: finds the runtime's tensors behind an op's arguments and results.
#pragma once

#include <ATen/core/ivalue.h>

#include <span>

#include "active_session.h"
#include "engine/signature.h"
#include "op_info.h"

namespace teraio::pytorch {

enum class OpSide : uint8_t {
  kArguments,        // of an outermost op: no op that could hold an address is running
  kNestedArguments,  // of an op within another
  kResults,          // a view of an argument does not change it; anything else is new
};

// Adds the tensors behind `values` to frame.uses, each once, and mixes shapes and types into
// `signature`. For the arguments of an outermost op, it first adopts storages in PyTorch's own
// memory that are large enough.
class StorageWalk {
 public:
  StorageWalk(ActiveSession& session, engine::OpFrame& frame, uint64_t signature, OpSide side)
      : session_(session), frame_(frame), signature_(signature), side_(side) {}

  void visit(const c10::IValue& value, bool is_write);
  uint64_t signature() const {
    return engine::combine_signatures(engine::kEmptySignature, signature_);
  }

 private:
  void visit_tensor(const at::Tensor& tensor, bool is_write);
  void visit_inner_tensors(const at::Tensor& tensor, bool is_write);
  bool is_opaque(const c10::TensorImpl& impl, c10::StorageImpl& storage) const;
  // Returns null when the runtime does not manage the storage. The pointer is valid until the next
  // call.
  engine::Use* visit_storage(c10::StorageImpl& storage, bool is_write);
  engine::Use& add_use(engine::LiveTensor& tensor, bool is_write);

  ActiveSession& session_;
  engine::OpFrame& frame_;
  uint64_t signature_;
  OpSide side_;
};

// Returns whether `value` holds a wrapper around other tensors. The observer then looks at the ops
// that the wrapper's dispatch runs.
bool has_wrapper(const c10::IValue& value);

// Adds the runtime's tensors behind `value`, an argument of a nested op, to `found`, each once.
void find_tensors(const ActiveSession& session, const c10::IValue& value,
                  std::vector<engine::LiveTensor*>& found);

}  // namespace teraio::pytorch
