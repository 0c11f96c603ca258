// Which of the runtime's tensors an op's arguments and results are.
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
  kResults,          // a view of an argument is no change of it; anything else is new
};

// Adds the tensors behind `values` to frame.uses, each once, and mixes shapes and types into
// `signature`. Among the arguments of an outermost op, storages of PyTorch's own memory that are
// large enough move into the runtime's memory first.
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
  // Null when the storage is not the runtime's. Valid until the next call.
  engine::Use* visit_storage(c10::StorageImpl& storage, bool is_write);
  engine::Use& add_use(engine::LiveTensor& tensor, bool is_write);

  ActiveSession& session_;
  engine::OpFrame& frame_;
  uint64_t signature_;
  OpSide side_;
};

// An argument is a wrapper around other tensors: the ops that its dispatch runs are those to look
// at.
bool has_wrapper(const c10::IValue& value);

// Adds the runtime's tensors behind `value`, the argument of an op within another, each once.
void find_tensors(const ActiveSession& session, const c10::IValue& value,
                  std::vector<engine::LiveTensor*>& found);

}  // namespace teraio::pytorch
