// Adoption: moves a storage that PyTorch allocated outside of the session into the runtime's
// memory.
#pragma once

#include "active_session.h"
#include "tensor_handle.h"

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
// the others return its handle. The address changes, so no running op may use the storage already.
// A raw pointer that the program
// has kept from before the session cannot be detected; it dangles afterwards.
TensorHandle* adopt(ActiveSession& session, c10::StorageImpl& storage);

}  // namespace teraio::pytorch
