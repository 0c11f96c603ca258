#include "storages/adoption.h"

#include <memory>
#include <mutex>

#include "base/yielding_mutex.h"
#include "op_error.h"
#include "python_lock.h"
#include "running_op.h"
#include "storages/data_pointer.h"
#include "storages/forked_child.h"
#include "storages/storage_swap.h"

namespace teraio::pytorch {
namespace {

// The context of the DataPtr of a storage that is kept in place.
struct KeptStorage {
  c10::DataPtr memory;  // what the storage had before
  int64_t size_bytes = 0;
  std::weak_ptr<runtime::Runtime> runtime;  // whose budget the bytes count against
};

void release_kept(void* context) {
  const std::unique_ptr<KeptStorage> kept(static_cast<KeptStorage*>(context));
  if (is_forked_child()) return;
  if (const auto runtime = kept->runtime.lock()) runtime->add_outside_bytes(-kept->size_bytes);
}

KeptStorage* kept_behind(const c10::DataPtr& data_ptr) {
  if (deleter_of(data_ptr) != &release_kept) return nullptr;
  return static_cast<KeptStorage*>(data_ptr.get_context());
}

// Guards the replacement of a DataPtr that is not a session's.
YieldingMutex<std::mutex>& adoption_mutex() {
  static auto* mutex = new YieldingMutex<std::mutex>(wait_without_python_lock);
  return *mutex;
}

bool can_adopt(const ActiveSession& session, c10::StorageImpl& storage) {
  return pytorch::can_adopt(*session.backend, session.smallest_tensor_bytes, storage);
}

// Returns whether the storage has memory of its own that is large enough for a session.
bool is_movable(int64_t smallest_tensor_bytes, c10::StorageImpl& storage) {
  return address_of(storage._mutable_data_ptr_no_checks()) != nullptr &&
         static_cast<int64_t>(storage.nbytes()) >= smallest_tensor_bytes && storage.resizable();
}

// Makes the storage's DataPtr own what it has owned by itself. The address stays.
KeptStorage& wrap_memory(c10::StorageImpl& storage) {
  auto kept = std::make_unique<KeptStorage>();
  kept->size_bytes = static_cast<int64_t>(storage.nbytes());
  c10::DataPtr& data_ptr = storage._mutable_data_ptr_no_checks();
  kept->memory = exchange(data_ptr, data_ptr.get(), kept.get(), &release_kept);
  return *kept.release();
}

}  // namespace

bool can_adopt(const DeviceBackend& backend, int64_t smallest_tensor_bytes,
               c10::StorageImpl& storage) {
  return is_movable(smallest_tensor_bytes, storage) && backend.can_adopt(storage);
}

TensorHandle* adopt(ActiveSession& session, c10::StorageImpl& storage) {
  if (!can_adopt(session, storage)) return nullptr;  // without the lock: ops ask often
  const StorageReferenceGuard guard;
  const auto size_bytes = static_cast<int64_t>(storage.nbytes());
  // May wait for a drive, and then run handlers of signals, whose ops adopt: without the lock.
  const Result<NewTensor> adopted =
      make_tensor(session.runtime, session.backend->torch_device(), size_bytes);
  if (!adopted.ok()) throw_status(adopted.status(), current_op_name());
  c10::DataPtr ours = make_data_ptr(adopted->handle, adopted->memory);
  c10::DataPtr previous;  // like `ours`, freed without the lock: its deleter may take any lock
  const std::lock_guard lock(adoption_mutex());
  if (TensorHandle* handle = handle_of(storage)) return handle;  // another thread has adopted it
  // Or another thread keeps it in place, or a handler has resized it: the next op adopts it.
  if (!can_adopt(session, storage) || static_cast<int64_t>(storage.nbytes()) != size_bytes)
    return nullptr;
  session.backend->copy(adopted->memory, storage);
  session.runtime->note_brought(adopted->handle->tensor);
  ours.release_context();
  previous = exchange(storage._mutable_data_ptr_no_checks(), adopted->memory, adopted->handle,
                      &release_handle);
  return adopted->handle;
}

int64_t keep_in_place(const ActiveSession& session, c10::StorageImpl& storage) {
  const std::lock_guard lock(adoption_mutex());
  KeptStorage* kept = kept_behind(storage._mutable_data_ptr_no_checks());
  if (kept == nullptr &&
      !(is_movable(session.smallest_tensor_bytes, storage) && session.backend->owns(storage)))
    return 0;
  if (kept == nullptr) kept = &wrap_memory(storage);
  if (kept->runtime.lock() == session.runtime) return 0;
  kept->runtime = session.runtime;
  session.runtime->add_outside_bytes(kept->size_bytes);
  return kept->size_bytes;
}

const c10::DataPtr* kept_memory(const c10::DataPtr& data_ptr) {
  const KeptStorage* kept = kept_behind(data_ptr);
  return kept == nullptr ? nullptr : &kept->memory;
}

}  // namespace teraio::pytorch
