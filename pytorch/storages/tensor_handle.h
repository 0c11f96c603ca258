// TensorHandle: connects a PyTorch storage with the engine's LiveTensor.
//
// The handle is the context of the storage's DataPtr from the first handle_of() to the storage's
// death, whether resident or offloaded. The context therefore identifies a storage independently of
// its address, and the DataPtr's deleter reports the storage's death. Before the first handle_of()
// the context is the memory itself, as PyTorch's raw_allocate() requires.
//
// Threads: any thread may call the functions, with or without the GIL, but not with the runtime's
// lock unless their comment says so.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <memory>
#include <optional>

#include "base/pooled.h"
#include "runtime/runtime.h"
#include "storages/data_pointer.h"

namespace teraio::pytorch {

struct TensorHandle : Pooled<TensorHandle> {
  std::shared_ptr<runtime::Runtime> runtime;  // lives as long as a storage has memory of it
  engine::LiveTensor* tensor = nullptr;
  c10::Device device = c10::Device(c10::DeviceType::CPU);  // the device that PyTorch sees
  // Set by remember_storage(). The reference is weak, because autograd decides by use counts
  // whether it steals or copies a gradient.
  // Read and written under the runtime's lock, except for the first storage, as are the flags.
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage;
  bool is_guarded = false;          // TorchStorageSwap::guard()
  bool has_access_message = false;  // the storage knows what a forbidden access raises
  std::atomic<const c10::StorageImpl*> storage_identity = nullptr;  // compared, never dereferenced
};

// Returns a DataPtr over `memory` (null when the tensor is offloaded) that owns `handle`. Takes no
// lock.
c10::DataPtr make_data_ptr(TensorHandle* handle, std::byte* memory);

// Returns a DataPtr that owns `handle` and whose context is `memory`. It is for memory that PyTorch
// may give to a storage or hand out as a raw pointer.
c10::DataPtr make_newborn_data_ptr(TensorHandle* handle, std::byte* memory);

// A new tensor of the runtime and its memory. The caller passes the handle to make_data_ptr() or
// make_newborn_data_ptr(), which take ownership of it.
struct NewTensor {
  TensorHandle* handle = nullptr;
  std::byte* memory = nullptr;
};
// Allocates a tensor, for which the runtime may offload others. Fails with kOutOfMemory when they
// free too little. Takes the runtime's lock; the caller holds a StorageReferenceGuard.
Result<NewTensor> make_tensor(const std::shared_ptr<runtime::Runtime>& runtime, c10::Device device,
                              int64_t size_bytes);

// The deleter of a DataPtr from make_data_ptr(). Releases the tensor under the runtime's lock and
// deletes the handle. Has no effect in a forked child.
void release_handle(void* handle);

// The deleter of a DataPtr from make_newborn_data_ptr(): release_newborn().
void delete_newborn(void* memory);

// Makes the handle of a newborn's DataPtr its context, unless another thread has done so. Returns
// the deleter that the DataPtr has then.
c10::DeleterFnPtr name_newborn(c10::DataPtr& data_ptr);

// Returns the handle of `storage`, which the storage's DataPtr owns. Returns null when no session
// has allocated or adopted its memory, and, in a forked child, when it had none before the fork.
// The handle may belong to a session that has ended. The first call makes the handle the context of
// the DataPtr. May be called with the runtime's lock, and from several threads for one storage,
// also while the engine moves it. Every op asks for each of its storages, so the call is inline.
inline TensorHandle* handle_of(c10::StorageImpl& storage) {
  c10::DataPtr& data_ptr = storage._mutable_data_ptr_no_checks();
  c10::DeleterFnPtr deleter = deleter_of(data_ptr);
  if (deleter == &delete_newborn) deleter = name_newborn(data_ptr);
  if (deleter != &release_handle) return nullptr;
  return static_cast<TensorHandle*>(data_ptr.get_context());
}

// Returns the handle of memory that may not belong to a storage, or null. Leaves `data_ptr` as it
// is.
TensorHandle* handle_behind(const c10::DataPtr& data_ptr);

// Records that `storage`, whose DataPtr owns `handle`, is the storage of the handle's tensor. From
// then on the engine may offload the tensor. Further calls with the same storage have no effect and
// take no lock. The first one takes none either, unless the
// DataPtr has moved to another storage.
void remember_new_storage(TensorHandle& handle, c10::StorageImpl& storage);
inline void remember_storage(TensorHandle& handle, c10::StorageImpl& storage) {
  if (handle.storage_identity.load(std::memory_order_relaxed) != &storage)
    remember_new_storage(handle, storage);
}

// Frees memory of make_newborn_data_ptr() that handle_of() has not seen. Returns false when
// `memory` is anything else. Frees nothing in a forked child.
bool release_newborn(void* memory);

}  // namespace teraio::pytorch
