// Adoption: moving a storage that PyTorch allocated before the session into the runtime's memory.
#pragma once

#include "active_session.h"
#include "tensor_handle.h"

namespace teraio::pytorch {

// Null when the storage is not one that can be moved: foreign memory, shared memory, NumPy's, or
// memory that something else may point to. No op uses the storage.
TensorHandle* adopt(ActiveSession& session, c10::StorageImpl& storage);

}  // namespace teraio::pytorch
