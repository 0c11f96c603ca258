// Fake tensors (torch._subclasses.FakeTensor) under the observer.
//
// The storage of a fake tensor is on the meta device: it has a size and a lifetime but no bytes.
// With a handle, the runtime knows it as any other storage and learns of its death in the same way.
#pragma once

#include <ATen/core/Tensor.h>

#include "active_session.h"

namespace teraio::pytorch {

// Returns whether `tensor` is a wrapper around other tensors (DTensor), or otherwise has no storage
// that the runtime could manage. The observer then looks at the ops that the wrapper's dispatch
// runs.
bool is_wrapper(const at::Tensor& tensor);

// Returns whether the storage has bytes, resident or offloaded. A wrapper's storage has none.
bool has_bytes(c10::StorageImpl& storage);

// Counts the storage for the rest of its life. Has no effect when the storage is counted already,
// is empty, or is not fake.
void count_fake_storage(const ActiveSession& session, c10::StorageImpl& storage);

// Registers that the program resized a fake storage: the old one counts as dead, and the new one as
// created now.
void recount_fake_storage(const ActiveSession& session, c10::StorageImpl& storage);

}  // namespace teraio::pytorch
