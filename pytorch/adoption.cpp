#include "adoption.h"

#include <mutex>

#include "data_pointer.h"
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
  c10::DataPtr previous;  // freed last: its deleter may take any lock
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (TensorHandle* handle = handle_of(storage)) return handle;  // another thread has adopted it
  const size_t size_bytes = storage.nbytes();
  const Result<NewTensor> adopted = make_tensor(session.runtime, session.backend->torch_device(),
                                                static_cast<int64_t>(size_bytes));
  if (!adopted.ok()) throw_status(adopted.status(), current_op_name());
  session.backend->copy(adopted->memory, storage.data(), size_bytes);
  previous = exchange(storage._mutable_data_ptr_no_checks(), adopted->memory, adopted->handle,
                      &release_handle);
  return adopted->handle;
}

}  // namespace teraio::pytorch
