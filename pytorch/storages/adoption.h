// Adoption: moves a storage that PyTorch allocated outside of the session into the runtime's
// memory, or keeps it where it is because other code knows its address.
#pragma once

#include "storages/active_session.h"
#include "storages/tensor_handle.h"

namespace teraio::pytorch {

// Copies the bytes of `storage` into the runtime's memory, frees the old memory, and returns the
// handle, which the storage owns. The caller then calls remember_storage().
//
// Returns null and changes nothing when the storage has no bytes or fewer than
// session.smallest_tensor_bytes, cannot be resized, or does not come from PyTorch's allocator for
// the session's device (see DeviceBackend::can_adopt()). Memory of NumPy, of another library or of
// a file, and memory that processes share, is thereby left where it is. Raises as throw_status()
// does: torch.OutOfMemoryError when the budget has no room for the storage.
//
// Threads: any, without the runtime's lock. The first of several calls for one storage adopts it,
// the others return its handle. The address changes, so no running op may use the storage already,
// and keep_in_place() must have been called for a storage whose address other code knows.
TensorHandle* adopt(ActiveSession& session, c10::StorageImpl& storage);

// Returns whether adopt() would move the storage when this thread calls it.
bool can_adopt(const DeviceBackend& backend, int64_t smallest_tensor_bytes,
               c10::StorageImpl& storage);

// Keeps the storage where it is until it dies: no session adopts it. Its bytes count against the
// budget of `session` as long as both live, and the engine never sees the storage, as it never sees
// the memory of another library. Returns the bytes, or 0 when they count already, and for a storage
// that no thread would adopt. A storage that an earlier session kept counts anew.
//
// Threads: any, without the runtime's lock.
int64_t keep_in_place(const ActiveSession& session, c10::StorageImpl& storage);

// Returns what `data_ptr` was before keep_in_place(), or null when it is not of a kept storage.
const c10::DataPtr* kept_memory(const c10::DataPtr& data_ptr);

}  // namespace teraio::pytorch
