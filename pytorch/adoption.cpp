#include "adoption.h"

#include "op_observer.h"
#include "storage_swap.h"

namespace teraio::pytorch {
namespace {

bool can_adopt(const ActiveSession& session, c10::StorageImpl& storage) {
  return storage._mutable_data_ptr_no_checks().get() != nullptr &&
         static_cast<int64_t>(storage.nbytes()) >= session.smallest_tensor_bytes &&
         storage.resizable() && session.backend->can_adopt(storage);
}

}  // namespace

TensorHandle* adopt(ActiveSession& session, c10::StorageImpl& storage) {
  if (!can_adopt(session, storage)) return nullptr;
  const StorageReferenceGuard guard;
  const size_t size_bytes = storage.nbytes();
  Result<TensorHandle*> handle = make_handle(session.runtime, session.backend->torch_device(),
                                             static_cast<int64_t>(size_bytes));
  if (!handle.ok()) throw_status(handle.status(), current_op_name());
  session.backend->copy((*handle)->tensor->memory, storage.data(), size_bytes);
  storage.set_data_ptr_noswap(make_data_ptr(*handle, (*handle)->tensor->memory));
  (*handle)->tensor->is_adopted = true;
  return *handle;
}

}  // namespace teraio::pytorch
