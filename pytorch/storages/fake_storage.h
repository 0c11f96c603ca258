// Fake tensors (torch._subclasses.FakeTensor) under the observer.
//
// The storage of a fake tensor is on the meta device: it has a size and a lifetime but no bytes.
// With a handle, the runtime manages it like any other storage and learns of its death in the same
// way.
//
// Threads: any, without the runtime's lock.
#pragma once

#include <ATen/core/Tensor.h>

#include "storages/active_session.h"

namespace teraio::pytorch {

// Returns whether `tensor` handles its operators in Python and has neither bytes nor a fake storage
// of its own, such as a DTensor, which wraps other tensors.
bool is_wrapper(const at::Tensor& tensor);

// Returns whether the storage has bytes, resident or offloaded, or is a fake storage that is
// counted. A wrapper's storage has neither.
bool has_bytes(c10::StorageImpl& storage);

// Gives the storage a handle, so that its size counts as device memory until the storage dies. Has
// no effect when it has a handle already, is empty, has a symbolic size, or is not fake. Raises as
// throw_status() does.
void count_fake_storage(const ActiveSession& session, c10::StorageImpl& storage);

// Registers that the program has resized a fake storage: its tensor counts as dead, and a tensor of
// the new size as created now. Raises as throw_status() does.
void recount_fake_storage(const ActiveSession& session, c10::StorageImpl& storage);

}  // namespace teraio::pytorch
