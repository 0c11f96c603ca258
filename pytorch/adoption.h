// Adoption: moving a storage that PyTorch allocated before the session into the runtime's memory.
#pragma once

#include "active_session.h"
#include "tensor_handle.h"

namespace teraio::pytorch {

// Moves the bytes of `storage` into the runtime's memory and returns its handle. Returns null when
// the storage cannot be moved: it is shared, it belongs to NumPy or another library, or something
// else may point to its memory. The caller ensures that no running op uses the storage.
TensorHandle* adopt(ActiveSession& session, c10::StorageImpl& storage);

}  // namespace teraio::pytorch
